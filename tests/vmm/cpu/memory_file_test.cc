// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/memory_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/file_size_limit.h"

namespace firn::cpu_testing {
namespace {

using ::testing::HasSubstr;

int64_t BytesOf(int fd) {
  struct stat status = {};
  fstat(fd, &status);
  return status.st_size;
}

TEST(MemoryFileTest, IsMadeEmptyAndResized) {
  for (const bool sealable : {false, true}) {
    cpu::PrivateFile file;
    ASSERT_TRUE(cpu::CreateMemoryFile("test", sealable, &file).ok());
    EXPECT_EQ(BytesOf(file.fd()), 0);
    EXPECT_TRUE(cpu::ResizeMemoryFile(file.fd(), 12345).ok());
    EXPECT_EQ(BytesOf(file.fd()), 12345);
    EXPECT_NE(fcntl(file.fd(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_EQ(fcntl(file.fd(), F_ADD_SEALS, F_SEAL_GROW) == 0, sealable);
  }
}

TEST(MemoryFileTest, IsNotResizedBeyondTheLimitOfTheProcess) {
  cpu::PrivateFile file;
  ASSERT_TRUE(cpu::CreateMemoryFile("test", /*sealable=*/false, &file).ok());
  const FileSizeLimit limit(1 << 20);
  EXPECT_EQ(cpu::MaxFileBytes(), 1u << 20);
  const cpu::Verdict refused = cpu::ResizeMemoryFile(file.fd(), (1 << 20) + 1);
  EXPECT_EQ(refused.result, DriverResult::kOutOfMemory);
  EXPECT_THAT(refused.rule, HasSubstr("RLIMIT_FSIZE"));
  EXPECT_TRUE(cpu::ResizeMemoryFile(file.fd(), 1 << 20).ok());
}

TEST(MemoryFileTest, ARefusalNamesItsReason) {
  EXPECT_THAT(cpu::RefuseFile(EMFILE).rule, HasSubstr("file descriptor"));
  EXPECT_THAT(cpu::RefuseFile(ENFILE).rule, HasSubstr("open file"));
  EXPECT_THAT(cpu::RefuseFile(ENOMEM).rule, HasSubstr("spare the memory"));
  EXPECT_THAT(cpu::RefuseFile(EACCES).rule, HasSubstr("let the process"));
}

}  // namespace
}  // namespace firn::cpu_testing

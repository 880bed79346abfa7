// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/shared_memory_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "firn/vmm/cpu/host_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

using cpu::FileIdentity;
using cpu::IsExportAlive;
using cpu::SharedMemoryInfo;
using ::testing::HasSubstr;

class SharedMemoryFileTest : public ::testing::Test {
 protected:
  SharedMemoryFileTest() {
    info_.granularity_bytes = kMemoryGranule;
    info_.bytes = 3 * kMemoryGranule;
    info_.prop = ShareablePropAt(Device(5));
    info_.prop.alloc_flags.gpu_direct_rdma_capable = 1;
    file_ = Create();
  }
  ~SharedMemoryFileTest() override { close(file_); }

  // A descriptor to close, of a new file.
  int Create() {
    cpu::PrivateFile file;
    TestMemory::ExpectOk(cpu::CreateSharedMemoryFile(info_, &file));
    return fcntl(file.fd(), F_DUPFD_CLOEXEC, 0);
  }
  // The same, of one that says what ours does, sealed otherwise.
  int CopyWithSeals(int seals) {
    const off_t bytes = lseek(file_, 0, SEEK_END);
    const auto page = static_cast<size_t>(cpu::HostPageBytes());
    std::vector<char> trailer(page);
    const off_t at = bytes - static_cast<off_t>(page);
    EXPECT_EQ(pread(file_, trailer.data(), page, at),
              static_cast<ssize_t>(page));
    const int copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(copy, bytes), 0);
    EXPECT_EQ(pwrite(copy, trailer.data(), page, at),
              static_cast<ssize_t>(page));
    EXPECT_EQ(fcntl(copy, F_ADD_SEALS, seals), 0);
    return copy;
  }
  int Export() {
    int exported = -1;
    TestMemory::ExpectOk(cpu::OpenForExport(file_, &exported));
    return exported;
  }

  SharedMemoryInfo info_;
  int file_ = -1;
};

TEST_F(SharedMemoryFileTest, SaysWhatItHolds) {
  for (const bool has_contents : {true, false}) {
    info_.has_contents = has_contents;
    const int file = Create();
    SharedMemoryInfo read;
    FileIdentity identity;
    ASSERT_EQ(cpu::ReadSharedMemoryFile(file, &read, &identity), nullptr);
    EXPECT_EQ(read.has_contents, has_contents);
    EXPECT_EQ(read.granularity_bytes, kMemoryGranule);
    EXPECT_EQ(read.bytes, 3 * kMemoryGranule);
    EXPECT_EQ(read.prop.type, AllocationType::kPinned);
    EXPECT_EQ(read.prop.requested_handle_types,
              ShareableHandleType::kPosixFileDescriptor);
    EXPECT_EQ(read.prop.location.type, LocationType::kDevice);
    EXPECT_EQ(read.prop.location.id, 5);
    EXPECT_EQ(read.prop.alloc_flags.gpu_direct_rdma_capable, 1);
    EXPECT_EQ(lseek(file, 0, SEEK_END),
              static_cast<off_t>((has_contents ? read.bytes : 0) +
                                 cpu::HostPageBytes()));
    close(file);
  }
}

TEST_F(SharedMemoryFileTest, AFileIsKnownByItsIdentity) {
  const int exported = Export();
  const int other = Create();
  EXPECT_TRUE(cpu::IdentityOf(exported) == cpu::IdentityOf(file_));
  EXPECT_FALSE(cpu::IdentityOf(other) == cpu::IdentityOf(file_));
  close(exported);
  close(other);
}

TEST_F(SharedMemoryFileTest, AnExportIsAliveWhileADescriptorIs) {
  EXPECT_FALSE(IsExportAlive(file_));
  const int first = Export();
  const int second = Export();
  const int duplicate = dup(first);
  // To ask changes nothing.
  EXPECT_TRUE(IsExportAlive(file_));
  close(first);
  EXPECT_TRUE(IsExportAlive(file_));
  close(second);
  EXPECT_TRUE(IsExportAlive(file_));
  close(duplicate);
  EXPECT_FALSE(IsExportAlive(file_));
  // Descriptors that were not handed out do not count.
  const int own = dup(file_);
  EXPECT_FALSE(IsExportAlive(file_));
  close(own);
}

TEST_F(SharedMemoryFileTest, AnExportIsAliveWhileAMappingIs) {
  const int exported = Export();
  void* const mapping = mmap(nullptr, kMemoryGranule, PROT_READ | PROT_WRITE,
                             MAP_SHARED, exported, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  close(exported);
  EXPECT_TRUE(IsExportAlive(file_));
  munmap(mapping, kMemoryGranule);
  EXPECT_FALSE(IsExportAlive(file_));
}

TEST_F(SharedMemoryFileTest, AnExportIsAliveWhileAForkedProcessIs) {
  const int exported = Export();
  int wake[2];
  ASSERT_EQ(pipe(wake), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    close(wake[1]);
    _exit(read(wake[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(exported);
  EXPECT_TRUE(IsExportAlive(file_));
  close(wake[0]);
  close(wake[1]);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(IsExportAlive(file_));
}

TEST_F(SharedMemoryFileTest, TheSizeIsSealed) {
  EXPECT_NE(ftruncate(file_, 0), 0);
  EXPECT_NE(ftruncate(file_, 1 << 30), 0);
  EXPECT_NE(fcntl(file_, F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST_F(SharedMemoryFileTest, OnlyAFileWithTheRightSealsIsOne) {
  constexpr int kRight = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  SharedMemoryInfo info;
  FileIdentity identity;
  const auto rule_of = [&](int seals) {
    const int copy = CopyWithSeals(seals);
    const char* const rule = cpu::ReadSharedMemoryFile(copy, &info, &identity);
    close(copy);
    return rule;
  };
  EXPECT_EQ(rule_of(kRight), nullptr);
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL}) {
    EXPECT_THAT(rule_of(kRight & ~missing), HasSubstr("exported")) << missing;
  }
  // Such a file cannot be mapped.
  for (const int write : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE}) {
    EXPECT_THAT(rule_of(kRight | write), HasSubstr("against writing")) << write;
  }
}

TEST_F(SharedMemoryFileTest, NobodyWaitsForWhoLocksAnExport) {
  const int first = Export();
  ASSERT_EQ(flock(first, LOCK_EX | LOCK_NB), 0);
  int second = -1;
  const cpu::Verdict refused = cpu::OpenForExport(file_, &second);
  EXPECT_EQ(refused.result, DriverResult::kNotPermitted);
  EXPECT_THAT(refused.rule, HasSubstr("flock"));
  EXPECT_EQ(second, -1);
  EXPECT_TRUE(IsExportAlive(file_));
  close(first);
  EXPECT_FALSE(IsExportAlive(file_));
  second = Export();
  EXPECT_TRUE(IsExportAlive(file_));
  close(second);
}

TEST_F(SharedMemoryFileTest, WhatCannotBeOpenedAnewIsDuplicated) {
  // Not even root may, as somebody else.
  ASSERT_EQ(fchmod(file_, 0), 0);
  constexpr uid_t kNobody = 65534;
  const auto before = static_cast<uid_t>(setfsuid(kNobody));
  int exported = -1;
  const cpu::Verdict verdict = cpu::OpenForExport(file_, &exported);
  setfsuid(before);
  TestMemory::ExpectOk(verdict);
  EXPECT_TRUE(cpu::IdentityOf(exported) == cpu::IdentityOf(file_));
  EXPECT_NE(fcntl(exported, F_GETFD) & FD_CLOEXEC, 0);
  close(exported);
}

TEST_F(SharedMemoryFileTest, WithoutADescriptorToSpareThatIsTheRule) {
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int first_free = dup(file_);
  close(first_free);
  const struct rlimit none = {static_cast<rlim_t>(first_free), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  int exported = -1;
  cpu::PrivateFile file;
  const cpu::Verdict verdicts[] = {cpu::OpenForExport(file_, &exported),
                                   cpu::CreateSharedMemoryFile(info_, &file),
                                   cpu::ReceiveSharedMemoryFile(file_, &file)};
  setrlimit(RLIMIT_NOFILE, &before);
  for (const cpu::Verdict& verdict : verdicts) {
    EXPECT_EQ(verdict.result, DriverResult::kOutOfMemory);
    EXPECT_THAT(verdict.rule, HasSubstr("descriptor to spare"));
  }
  EXPECT_EQ(exported, -1);
  EXPECT_FALSE(file.ok());
}

}  // namespace
}  // namespace firn::cpu_testing

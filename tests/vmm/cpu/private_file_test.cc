// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/private_file.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

using cpu::PrivateFile;

int OpenNull() { return open("/dev/null", O_RDWR | O_CLOEXEC); }
bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// Whether `check` holds in a forked child.
template <typename Check>
bool HoldsInChild(Check check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

TEST(PrivateFileTest, IsClosedAtItsEnd) {
  int fd = -1;
  {
    PrivateFile file = PrivateFile::Open(&OpenNull);
    ASSERT_TRUE(file.ok());
    fd = file.fd();
    const PrivateFile moved = std::move(file);
    EXPECT_EQ(moved.fd(), fd);
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(PrivateFileTest, WhatIsReleasedCanBeTakenOver) {
  PrivateFile file = PrivateFile::Open(&OpenNull);
  const int fd = file.Release();
  EXPECT_FALSE(file.ok());
  EXPECT_TRUE(IsOpen(fd));
  EXPECT_TRUE(HoldsInChild([fd] { return !IsOpen(fd); }));
  { const PrivateFile taken(fd); }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(PrivateFileTest, AFileThatCannotBeOpenedIsNone) {
  const PrivateFile file = PrivateFile::Open([] {
    errno = EMFILE;
    return -1;
  });
  EXPECT_EQ(errno, EMFILE);
  EXPECT_FALSE(file.ok());
}

TEST(PrivateFileTest, AForkedChildHasNone) {
  const PrivateFile file = PrivateFile::Open(&OpenNull);
  const int other = OpenNull();
  EXPECT_TRUE(
      HoldsInChild([&] { return !IsOpen(file.fd()) && IsOpen(other); }));
  EXPECT_TRUE(IsOpen(file.fd()));
  close(other);
}

TEST(PrivateFileTest, AForkedChildClosesNothingThatIsItsOwn) {
  std::optional<PrivateFile> files[2];
  for (auto& file : files) file = PrivateFile::Open(&OpenNull);
  const int fd = files[0]->fd();
  EXPECT_TRUE(HoldsInChild([&] {
    // Its first files get the numbers that became free.
    const PrivateFile own = PrivateFile::Open(&OpenNull);
    const int duplicate = OpenNull();
    if (own.fd() != fd || duplicate != files[1]->fd()) return false;
    for (auto& file : files) file.reset();
    return IsOpen(own.fd()) && IsOpen(duplicate) &&
           HoldsInChild([&] { return !IsOpen(own.fd()) && IsOpen(duplicate); });
  }));
}

}  // namespace
}  // namespace firn::cpu_testing

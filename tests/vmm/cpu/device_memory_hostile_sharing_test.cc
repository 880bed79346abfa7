// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sharing with those who do not play along: descriptors that change while they
// are imported, holders that lock them, children that live on.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "firn/vmm/cpu/device_memory.h"
#include "firn/vmm/cpu/ghost_storage.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;

// The lowest number that no file has.
int FirstFreeDescriptor() {
  const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  close(fd);
  return fd;
}

// A child forked now, which does nothing until this object goes.
class IdleChild {
 public:
  IdleChild() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
    child_ = fork();
    char byte = 0;
    if (child_ == 0) {
      close(ends_[0]);
      const bool told = write(ends_[1], &byte, 1) == 1;
      _exit(told && read(ends_[1], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends_[1]);
    // Until fork() has returned there, too.
    EXPECT_EQ(read(ends_[0], &byte, 1), 1);
  }
  ~IdleChild() {
    close(ends_[0]);
    int status = -1;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }
  IdleChild(const IdleChild&) = delete;
  IdleChild& operator=(const IdleChild&) = delete;

 private:
  int ends_[2] = {-1, -1};
  pid_t child_ = -1;
};

class HostileSharingTest : public MemoryTest {
 protected:
  PhysicalHandle CreateShareable(TestMemory& memory) {
    return memory.Create(ShareablePropAt(Device(0)));
  }

  std::optional<TestMemory> memory_{std::in_place, GetParam()};
};

TEST_P(HostileSharingTest, AForkedChildHoldsNothingOfTheExporterNorImporter) {
  std::optional<TestMemory> importer(std::in_place, GetParam());
  PhysicalHandle handle = 0;
  const DevicePtr base =
      memory_->NewMemory(ShareablePropAt(Device(0)), &handle);
  const int file = memory_->Export(handle);
  const PhysicalHandle imported = importer->Import(file);
  const DevicePtr there = importer->Reserve(1);
  importer->Map(there, imported);
  importer->SetAccess(there);
  close(file);
  const IdleChild child;
  memory_->Unmap(base);
  memory_->Release(handle);
  importer->Release(imported);
  EXPECT_EQ(memory_->FreeGranules(), kMemoryGranules - 1);
  importer->Unmap(there);
  EXPECT_EQ(memory_->FreeGranules(), kMemoryGranules);
}

TEST_P(HostileSharingTest, AForkedChildKeepsWhatWasExportedToTheProcess) {
  const PhysicalHandle handle = CreateShareable(*memory_);
  const int file = memory_->Export(handle);
  {
    const IdleChild child;
    close(file);
    memory_->Release(handle);
    EXPECT_EQ(memory_->FreeGranules(), kMemoryGranules - 1);
  }
  EXPECT_EQ(memory_->FreeGranules(), kMemoryGranules);
}

TEST_P(HostileSharingTest, AForkedChildMayDestroyItsDriver) {
  const int first_free = FirstFreeDescriptor();
  const PhysicalHandle handle = CreateShareable(*memory_);
  const int file = memory_->Export(handle);
  std::optional<TestMemory> importer(std::in_place, GetParam());
  importer->Import(file);
  const pid_t child = fork();
  if (child == 0) {
    // Takes the numbers that the driver's files had.
    const int last = fcntl(file, F_DUPFD_CLOEXEC, 100);
    for (int fd = 0; fd < 99;) fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    importer.reset();
    memory_.reset();
    for (int fd = first_free; fd <= last; ++fd) {
      if (fcntl(fd, F_GETFD) < 0) _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  // It changed nothing here.
  EXPECT_NE(CreateShareable(*memory_), 0u);
  close(memory_->Export(handle));
  close(file);
}

TEST_P(HostileSharingTest, AnExporterDoesNotWaitForAHolderThatLocks) {
  const PhysicalHandle handle = CreateShareable(*memory_);
  const int file = memory_->Export(handle);
  ASSERT_EQ(flock(file, LOCK_EX | LOCK_NB), 0);
  int again = -1;
  EXPECT_EQ(TestMemory::Check((*memory_)->Export(
                &again, handle, ShareableHandleType::kPosixFileDescriptor, 0)),
            DriverResult::kNotPermitted);
  EXPECT_EQ(again, -1);
  memory_->Release(handle);
  EXPECT_EQ(memory_->FreeGranules(), kMemoryGranules - 1);
  close(file);
  EXPECT_EQ(memory_->FreeGranules(), kMemoryGranules);
}

TEST_P(HostileSharingTest, AnImportOfKnownMemoryKeepsNoDescriptor) {
  const PhysicalHandle handle = CreateShareable(*memory_);
  const int file = memory_->Export(handle);
  const int first_free = FirstFreeDescriptor();
  memory_->Import(file);
  PhysicalHandle refused = 0;
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_NE(memory_->TryImport(null, &refused), kOk);
  close(null);
  EXPECT_EQ(FirstFreeDescriptor(), first_free);
  close(file);
}

INSTANTIATE_TEST_SUITE_P(Storages, HostileSharingTest, ::testing::Bool(),
                         MemoryKind);

// Where the caller's descriptor becomes another file's while it is imported.
class SwappingStorage : public cpu::GhostStorage {
 public:
  // The descriptor, and the file that it becomes.
  SwappingStorage(int victim, int other) : victim_(victim), other_(other) {}

  cpu::Verdict Adopt(int file, cpu::StoragePlace* place) override {
    EXPECT_GE(dup2(other_, victim_), 0);
    return GhostStorage::Adopt(file, place);
  }

 private:
  const int victim_;
  const int other_;
};

TEST(SwappedImportTest, WhatWasCheckedIsWhatIsImported) {
  TestMemory exporter(/*real=*/false);
  const int file = exporter.Export(exporter.Create(ShareablePropAt(Device(0))));
  const cpu::FileIdentity identity = cpu::IdentityOf(file);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  cpu::DeviceMemory importer(SmallMemory(),
                             std::make_unique<SwappingStorage>(file, null));
  constexpr auto kType = ShareableHandleType::kPosixFileDescriptor;
  PhysicalHandle handle = 0;
  TestMemory::ExpectOk(importer.Import(&handle, AsShareable(file), kType));
  int again = -1;
  TestMemory::ExpectOk(importer.Export(&again, handle, kType, 0));
  EXPECT_TRUE(cpu::IdentityOf(again) == identity);
  EXPECT_FALSE(cpu::IdentityOf(file) == identity);
  close(again);
  close(file);
  close(null);
}

}  // namespace
}  // namespace firn::cpu_testing

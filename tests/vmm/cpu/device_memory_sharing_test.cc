// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Handles exported and imported: what may be, and how long memory lives when
// several hold it, in one process and in two.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "firn/vmm/cpu/device_memory.h"
#include "firn/vmm/cpu/host_memory.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/import_process.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kInvalid = DriverResult::kInvalidValue;
constexpr DriverResult kNoMemory = DriverResult::kOutOfMemory;
constexpr DriverResult kUnsupported = DriverResult::kNotSupported;

class SharingTest : public MemoryTest {
 protected:
  PhysicalHandle CreateShareable(uint64_t granules = 1) {
    return memory_.Create(ShareablePropAt(Device(0)), granules);
  }
  uint64_t MemoryIdAt(DevicePtr address) {
    std::vector<cpu::PhysicalRange> physical;
    const cpu::AccessRange range{address, 1, false};
    TestMemory::ExpectOk(
        memory_->CheckAccess(0, {range}, ~uint64_t{0}, &physical));
    return physical.empty() ? 0 : physical[0].memory_id;
  }
  // What an int that is a file descriptor, or not, is as an import.
  DriverResult TryImport(int file) {
    PhysicalHandle handle = 77;
    const DriverResult result = memory_.TryImport(file, &handle);
    if (result != kOk) {
      EXPECT_EQ(handle, 77u);
    }
    return result;
  }

  TestMemory memory_{GetParam()};
};

TEST_P(SharingTest, OnlyWhatWasMadeForItIsExported) {
  int file = 77;
  const auto check = [&](void* place, PhysicalHandle handle, int32_t type,
                         uint64_t flags) {
    return TestMemory::Check(memory_->Export(
        place, handle, static_cast<ShareableHandleType>(type), flags));
  };
  const PhysicalHandle handle = CreateShareable();
  EXPECT_EQ(check(&file, memory_.Create(), 1, 0), kInvalid);
  EXPECT_EQ(check(nullptr, handle, 1, 0), kInvalid);
  EXPECT_EQ(check(&file, handle, 1, 1), kInvalid);
  EXPECT_EQ(check(&file, handle, 0, 0), kInvalid);
  EXPECT_EQ(check(&file, handle, 2, 0), kInvalid);
  EXPECT_EQ(check(&file, handle, 9, 0), kInvalid);
  EXPECT_EQ(check(&file, handle, 8, 0), kUnsupported);
  EXPECT_EQ(check(&file, 0, 1, 0), kInvalid);
  EXPECT_EQ(file, 77);
  EXPECT_EQ(check(&file, handle, 1, 0), kOk);
  EXPECT_NE(fcntl(file, F_GETFD) & FD_CLOEXEC, 0);
  close(file);
  memory_.Release(handle);
  EXPECT_EQ(check(&file, handle, 1, 0), kInvalid);
}

TEST_P(SharingTest, OnlyWhatWasExportedIsImported) {
  EXPECT_EQ(TryImport(-1), kInvalid);
  EXPECT_EQ(TryImport(1000000), kInvalid);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(TryImport(null), kInvalid);
  close(null);
  const int empty = memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(TryImport(empty), kInvalid);
  ASSERT_EQ(ftruncate(empty, 2 * static_cast<off_t>(kMemoryGranule)), 0);
  ASSERT_EQ(fcntl(empty, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_EQ(TryImport(empty), kInvalid);
  close(empty);
  const PhysicalHandle handle = CreateShareable();
  const int file = memory_.Export(handle);
  PhysicalHandle imported = 0;
  const auto import = [&](PhysicalHandle* place, int32_t type) {
    return TestMemory::Check(memory_->Import(
        place, AsShareable(file), static_cast<ShareableHandleType>(type)));
  };
  EXPECT_EQ(import(nullptr, 1), kInvalid);
  EXPECT_EQ(import(&imported, 0), kInvalid);
  EXPECT_EQ(import(&imported, 9), kInvalid);
  EXPECT_EQ(import(&imported, 8), kUnsupported);
  EXPECT_EQ(imported, 0u);
  EXPECT_EQ(import(&imported, 1), kOk);
  close(file);
  EXPECT_EQ(TryImport(file), kInvalid);
}

TEST_P(SharingTest, ADescriptorThatCannotBeWrittenThroughIsRefused) {
  const int file = memory_.Export(CreateShareable());
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const int read_only = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(read_only, 0);
  EXPECT_EQ(TryImport(read_only), kInvalid);
  close(read_only);
  close(file);
}

TEST_P(SharingTest, ADamagedDescriptionIsRefused) {
  const int file = memory_.Export(CreateShareable());
  const off_t end = lseek(file, 0, SEEK_END);
  const auto page = static_cast<off_t>(cpu::HostPageBytes());
  for (const off_t offset : {0, 8, 12, 16, 24, 44, 50, 72}) {
    uint8_t byte = 0;
    const off_t at = end - page + offset;
    ASSERT_EQ(pread(file, &byte, 1, at), 1);
    const auto damaged = static_cast<uint8_t>(byte ^ 4);
    ASSERT_EQ(pwrite(file, &damaged, 1, at), 1);
    EXPECT_EQ(TryImport(file), kInvalid) << offset;
    ASSERT_EQ(pwrite(file, &byte, 1, at), 1);
  }
  EXPECT_EQ(TryImport(file), kOk);
  // Nobody can take the memory away from beneath a mapping.
  EXPECT_NE(ftruncate(file, 0), 0);
  EXPECT_NE(ftruncate(file, 2 * end), 0);
  close(file);
}

TEST_P(SharingTest, AnotherGranularityStorageOrNumberOfDevicesIsRefused) {
  const int file =
      memory_.Export(memory_.Create(ShareablePropAt(Device(1)), 2));
  PhysicalHandle handle = 0;
  cpu::MemoryOptions options = SmallMemory();
  options.granularity_bytes = 2 * kMemoryGranule;
  EXPECT_EQ(TestMemory(GetParam(), options).TryImport(file, &handle), kInvalid);
  options = SmallMemory();
  options.device_count = 1;
  EXPECT_EQ(TestMemory(GetParam(), options).TryImport(file, &handle), kInvalid);
  EXPECT_EQ(TestMemory(!GetParam()).TryImport(file, &handle), kInvalid);
  EXPECT_EQ(TestMemory(GetParam()).TryImport(file, &handle), kOk);
  close(file);
}

TEST_P(SharingTest, AnImportIsAnotherHandleToTheSameMemory) {
  PhysicalHandle handle = 0;
  const DevicePtr base = memory_.NewMemory(ShareablePropAt(Device(0)), &handle);
  const int file = memory_.Export(handle);
  const PhysicalHandle imported = memory_.Import(file);
  const PhysicalHandle again = memory_.Import(file);
  close(file);
  EXPECT_NE(imported, handle);
  EXPECT_NE(again, imported);
  EXPECT_EQ(memory_->live_handles(), 3u);
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules - 1);
  const DevicePtr alias = memory_.Reserve(1);
  memory_.Map(alias, imported);
  memory_.SetAccess(alias);
  EXPECT_EQ(MemoryIdAt(alias), MemoryIdAt(base));
  if (GetParam()) {
    ByteAt(base) = 42;
    EXPECT_EQ(ByteAt(alias), 42);
  }
  // Each mapping tells the handle that it was made with.
  PhysicalHandle retained = 0;
  ASSERT_TRUE(memory_->Retain(&retained, alias).ok());
  EXPECT_EQ(retained, imported);
  ASSERT_TRUE(memory_->Retain(&retained, base).ok());
  EXPECT_EQ(retained, handle);
  // Each import has a release of its own.
  memory_.Release(imported);
  memory_.Release(imported);
  EXPECT_EQ(memory_->Release(imported).result, kInvalid);
  memory_.Release(again);
  EXPECT_EQ(memory_->Release(again).result, kInvalid);
  AllocationProp prop;
  EXPECT_TRUE(memory_->GetProperties(&prop, handle).ok());
}

TEST_P(SharingTest, MemoryLivesUntilTheLastHolderInTheProcessGoes) {
  PhysicalHandle handle = 0;
  const DevicePtr base = memory_.NewMemory(ShareablePropAt(Device(0)), &handle);
  const uint64_t id = MemoryIdAt(base);
  if (GetParam()) ByteAt(base) = 42;
  const int file = memory_.Export(handle);
  memory_.Unmap(base);
  memory_.Release(handle);
  // The descriptor holds it, and counts.
  EXPECT_EQ(memory_->live_handles(), 0u);
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules - 1);
  EXPECT_TRUE(memory_->TakeFreedMemory().empty());
  const PhysicalHandle imported = memory_.Import(file);
  close(file);
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules - 1);
  memory_.Map(base, imported);
  memory_.SetAccess(base);
  EXPECT_EQ(MemoryIdAt(base), id);
  if (GetParam()) {
    EXPECT_EQ(ByteAt(base), 42);
  }
  // The mapping holds it.
  memory_.Release(imported);
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules - 1);
  memory_.Unmap(base);
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules);
  EXPECT_EQ(memory_->TakeFreedMemory(), std::vector<uint64_t>{id});
}

TEST_P(SharingTest, ADescriptorLeftOpenCountsUntilItIsClosed) {
  const PhysicalHandle handle = CreateShareable(kMemoryGranules);
  const int file = memory_.Export(handle);
  const int duplicate = fcntl(file, F_DUPFD_CLOEXEC, 0);
  const int second = memory_.Export(handle);
  memory_.Release(handle);
  for (const int held : {file, second, duplicate}) {
    EXPECT_EQ(memory_.TryCreate(PropAt(Device(0))), kNoMemory);
    EXPECT_EQ(memory_.FreeGranules(), 0u);
    close(held);
  }
  // Found out without being asked for.
  EXPECT_EQ(memory_.TryCreate(PropAt(Device(0)), kMemoryGranules), kOk);
  EXPECT_EQ(memory_->TakeFreedMemory().size(), 1u);
}

TEST_P(SharingTest, AnExportThatNobodyHoldsAnyMoreCostsNothing) {
  const PhysicalHandle handle = CreateShareable();
  close(memory_.Export(handle));
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules - 1);
  memory_.Release(handle);
  EXPECT_EQ(memory_->TakeFreedMemory().size(), 1u);
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules);
}

TEST_P(SharingTest, MemoryOfAHostNodeIsSharedToo) {
  const PhysicalHandle handle = memory_.Create(ShareablePropAt(HostNode()));
  const int file = memory_.Export(handle);
  memory_.Release(handle);
  const PhysicalHandle imported = memory_.Import(file);
  AllocationProp prop;
  ASSERT_TRUE(memory_->GetProperties(&prop, imported).ok());
  EXPECT_EQ(prop.location.type, LocationType::kHostNuma);
  close(file);
}

TEST_P(SharingTest, TwoDriversOfAProcessShareAsTwoProcessesDo) {
  PhysicalHandle handle = 0;
  const DevicePtr base = memory_.NewMemory(ShareablePropAt(Device(1)), &handle);
  const int file = memory_.Export(handle);
  {
    TestMemory other(GetParam());
    const PhysicalHandle imported = other.Import(file);
    const DevicePtr there = other.Reserve(1);
    other.Map(there, imported);
    other.SetAccess(there);
    // It is in the account of the driver that made it.
    EXPECT_EQ(other.FreeGranules(1), kMemoryGranules);
    if (GetParam()) {
      ByteAt(base) = 7;
      EXPECT_EQ(ByteAt(there), 7);
      ByteAt(there) = 8;
      EXPECT_EQ(ByteAt(base), 8);
    }
    close(file);
    memory_.Unmap(base);
    memory_.Release(handle);
    EXPECT_EQ(memory_.FreeGranules(1), kMemoryGranules - 1);
    other.Release(imported);
    EXPECT_EQ(memory_.FreeGranules(1), kMemoryGranules - 1);
    if (GetParam()) {
      EXPECT_EQ(ByteAt(there), 8);
    }
    other.Unmap(there);
    EXPECT_EQ(other->TakeFreedMemory().size(), 1u);
  }
  EXPECT_EQ(memory_.FreeGranules(1), kMemoryGranules);
}

TEST_P(SharingTest, AMemoryThatIsGoneLeavesItsExportsUsable) {
  TestMemory other(GetParam());
  int file = -1;
  {
    TestMemory first(GetParam());
    PhysicalHandle handle = 0;
    const DevicePtr base = first.NewMemory(ShareablePropAt(Device(0)), &handle);
    if (GetParam()) ByteAt(base) = 9;
    file = first.Export(handle);
  }
  const PhysicalHandle imported = other.Import(file);
  close(file);
  const DevicePtr there = other.Reserve(1);
  other.Map(there, imported);
  other.SetAccess(there);
  if (GetParam()) {
    EXPECT_EQ(ByteAt(there), 9);
  }
}

TEST_P(SharingTest, AnotherProcessUsesTheSameMemory) {
  PhysicalHandle handle = 0;
  const DevicePtr base = memory_.NewMemory(ShareablePropAt(Device(1)), &handle);
  if (GetParam()) ByteAt(base) = 41;
  const int file = memory_.Export(handle);
  ImportProcess other(GetParam());
  ASSERT_EQ(other.Tell(ImportCommand::kImport, file), 0);
  close(file);
  EXPECT_EQ(other.Tell(ImportCommand::kDevice), 1);
  EXPECT_EQ(other.Tell(ImportCommand::kMap), 0);
  EXPECT_EQ(other.Tell(ImportCommand::kFree),
            static_cast<int>(kMemoryGranules));
  if (GetParam()) {
    EXPECT_EQ(other.Tell(ImportCommand::kRead), 41);
    EXPECT_EQ(other.Tell(ImportCommand::kWrite), 0);
    EXPECT_EQ(ByteAt(base), 42);
  }
}

TEST_P(SharingTest, MemoryCountsUntilTheLastHolderInAnotherProcessGoes) {
  PhysicalHandle handle = 0;
  const DevicePtr base = memory_.NewMemory(ShareablePropAt(Device(0)), &handle);
  if (GetParam()) ByteAt(base) = 41;
  const int file = memory_.Export(handle);
  ImportProcess other(GetParam());
  ASSERT_EQ(other.Tell(ImportCommand::kImport, file), 0);
  ASSERT_EQ(other.Tell(ImportCommand::kMap), 0);
  // The exporter goes first.
  close(file);
  memory_.Unmap(base);
  memory_.Release(handle);
  // One holder after the other goes; the mapping is the last.
  for (const ImportCommand command :
       {ImportCommand::kClose, ImportCommand::kRelease}) {
    EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules - 1);
    EXPECT_EQ(other.Tell(command), 0);
  }
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules - 1);
  if (GetParam()) {
    EXPECT_EQ(other.Tell(ImportCommand::kRead), 41);
  }
  EXPECT_EQ(other.Tell(ImportCommand::kUnmap), 0);
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules);
  EXPECT_EQ(memory_->TakeFreedMemory().size(), 1u);
}

TEST_P(SharingTest, AProcessThatDiesHoldsNothing) {
  const PhysicalHandle handle = CreateShareable();
  const int file = memory_.Export(handle);
  {
    ImportProcess other(GetParam());
    ASSERT_EQ(other.Tell(ImportCommand::kImport, file), 0);
    ASSERT_EQ(other.Tell(ImportCommand::kMap), 0);
    close(file);
    memory_.Release(handle);
    EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules - 1);
  }
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules);
}

TEST_P(SharingTest, WhatAnotherProcessExportsAgainIsStillTheSameMemory) {
  PhysicalHandle handle = 0;
  const DevicePtr base = memory_.NewMemory(ShareablePropAt(Device(0)), &handle);
  const uint64_t id = MemoryIdAt(base);
  const int file = memory_.Export(handle);
  int returned = -1;
  {
    ImportProcess other(GetParam());
    ASSERT_EQ(other.Tell(ImportCommand::kImport, file), 0);
    ASSERT_EQ(other.Tell(ImportCommand::kExport, -1, &returned), 0);
  }
  close(file);
  ASSERT_GE(returned, 0);
  memory_.Unmap(base);
  memory_.Release(handle);
  EXPECT_EQ(memory_.FreeGranules(), kMemoryGranules - 1);
  memory_.Map(base, memory_.Import(returned));
  memory_.SetAccess(base);
  EXPECT_EQ(MemoryIdAt(base), id);
  close(returned);
}

TEST(RealSharingTest, TheLastByteOfSharedMemoryIsMemory) {
  TestMemory memory(/*real=*/true);
  const PhysicalHandle handle = memory.Create(ShareablePropAt(Device(0)), 2);
  const DevicePtr base = memory.Reserve(2);
  memory.Map(base, handle, 2);
  memory.SetAccess(base, 2);
  const DevicePtr last = base + 2 * kMemoryGranule - 1;
  EXPECT_EQ(ByteAt(last), 0);
  ByteAt(last) = 0xFF;
  // What describes the memory lies elsewhere.
  const int file = memory.Export(handle);
  memory.Import(file);
  close(file);
}

TEST(RealSharingTest, SharedMemoryIsPoisonedAsAllMemoryIs) {
  auto backing = cpu::Backing::Create(kMemoryGranule, /*poison=*/true);
  ASSERT_TRUE(backing.ok());
  cpu::SharedMemoryInfo info;
  info.granularity_bytes = kMemoryGranule;
  info.bytes = 2 * kMemoryGranule;
  info.prop = ShareablePropAt(Device(0));
  cpu::StoragePlace place;
  ASSERT_TRUE((*backing)->AllocateFile(info, &place).ok());
  for (const off_t offset : {off_t{0}, off_t{2 * kMemoryGranule - 4}}) {
    uint32_t word = 0;
    ASSERT_EQ(pread(place.file, &word, sizeof(word), offset), 4);
    EXPECT_EQ(word, kCpuPoisonWord);
  }
  (*backing)->Free(place, 2);
}

INSTANTIATE_TEST_SUITE_P(Storages, SharingTest, ::testing::Bool(), MemoryKind);

}  // namespace
}  // namespace firn::cpu_testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/real_storage.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "firn/vmm/cpu/host_memory.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

using cpu::KernelMappingBudget;

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kNoMemory = DriverResult::kOutOfMemory;

CpuDriverOptions HostPageGranules(uint64_t device_bytes) {
  CpuDriverOptions options;
  options.granularity_bytes = cpu::HostPageBytes();
  options.device_bytes = device_bytes;
  options.poison = false;
  return options;
}

// What the memory file of this process's one device takes of the host.
uint64_t ResidentDeviceBytes() {
  for (int fd = 0; fd < 1024; ++fd) {
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    char target[64] = {};
    if (readlink(link.c_str(), target, sizeof(target) - 1) < 0) continue;
    if (std::string(target).find("firn_device_memory") == std::string::npos) {
      continue;
    }
    struct stat status;
    if (fstat(fd, &status) != 0) break;
    return static_cast<uint64_t>(status.st_blocks) * 512;
  }
  ADD_FAILURE() << "no device has a memory file";
  return 0;
}

TEST(RealStorageTest, HandlesCreatedInARowShareOneKernelMapping) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr base = device.NewMemory(64);
  EXPECT_EQ(KernelMappingsIn(base, 64 * device.granule_bytes()), 1);
}

TEST(RealStorageTest, NeighboursMappedOneByOneAreJoinedByTheKernel) {
  for (const uint64_t granule_bytes : {uint64_t{64} << 10, 2 * kMiB}) {
    CpuDriverOptions options;
    options.granularity_bytes = granule_bytes;
    options.device_bytes = 16 * granule_bytes;
    CpuTestDevice device(options);
    const DevicePtr base = device.Reserve(16);
    for (uint64_t i = 0; i < 16; ++i) {
      device.Map(device.At(base, i), device.Create());
      device.SetAccess(device.At(base, i));
    }
    EXPECT_EQ(KernelMappingsIn(base, 16 * granule_bytes), 1);
    // A hole and a change of access part it.
    device.Unmap(device.At(base, 4));
    device.SetAccess(device.At(base, 10), 1, AccessFlags::kRead);
    EXPECT_EQ(KernelMappingsIn(base, 16 * granule_bytes), 5);
    device.SetAccess(device.At(base, 10), 1);
    EXPECT_EQ(KernelMappingsIn(base, 16 * granule_bytes), 3);
    device.Unmap(base, 4);
    device.Unmap(device.At(base, 5), 11);
    EXPECT_EQ(KernelMappingsIn(base, 16 * granule_bytes), 1);
  }
}

TEST(RealStorageTest, WhatIsMappedWithoutAccessIsNotThere) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr base = device.Reserve(4);
  const int64_t before = KernelMappingBudget::OfProcess().used();
  for (uint64_t i = 0; i < 4; ++i)
    device.Map(device.At(base, i), device.Create());
  EXPECT_EQ(KernelMappingsIn(base, 4 * device.granule_bytes()), 1);
  EXPECT_EQ(KernelMappingBudget::OfProcess().used(), before);
}

TEST(RealStorageTest, TheBudgetCoversTheWorstCaseAndIsGivenBack) {
  KernelMappingBudget& budget = KernelMappingBudget::OfProcess();
  const int64_t at_start = budget.used();
  {
    CpuTestDevice device(SmallRealOptions());
    const DevicePtr base = device.Reserve(10);
    const int64_t reserved = budget.used();
    for (uint64_t i = 0; i < 10; ++i) {
      device.Map(device.At(base, i), device.Create());
    }
    device.SetAccess(base, 10);
    // Ten mappings; the one gap is gone.
    EXPECT_EQ(budget.used(), reserved + 9);
    device.SetAccess(base, 10, AccessFlags::kRead);
    EXPECT_EQ(budget.used(), reserved + 9);
    // A gap for a mapping: no more than before.
    device.Unmap(device.At(base, 3));
    device.Unmap(device.At(base, 5));
    EXPECT_EQ(budget.used(), reserved + 9);
    device.SetAccess(device.At(base, 4), 1, AccessFlags::kNone);
    EXPECT_EQ(budget.used(), reserved + 7);
    device.Unmap(base, 3);
    device.Unmap(device.At(base, 4));
    device.Unmap(device.At(base, 6), 4);
    EXPECT_EQ(budget.used(), reserved);
    EXPECT_EQ(device->MemAddressFree(base, 10 * device.granule_bytes()), kOk);
    EXPECT_EQ(budget.used(), reserved - 1);
    device.NewMemory(5);
  }
  EXPECT_EQ(budget.used(), at_start);
}

TEST(RealStorageTest, TheLimitOfKernelMappingsIsReportedAndNeverHit) {
  const auto limit =
      static_cast<uint64_t>(KernelMappingBudget::OfProcess().limit());
  if (limit > 200000) GTEST_SKIP() << "this host allows " << limit;
  CpuTestDevice device(HostPageGranules(limit * cpu::HostPageBytes()));
  // Every other granule: each takes a kernel mapping, and a gap another.
  const DevicePtr base = device.Reserve(2 * limit);
  const PhysicalHandle handle = device.Create();
  DriverResult result = kOk;
  uint64_t mapped = 0;
  while (result == kOk && mapped < limit) {
    const DevicePtr address = device.At(base, 2 * mapped);
    device.Map(address, handle);
    result = device.TrySetAccess(address, 1, AccessFlags::kReadWrite);
    ++mapped;
  }
  EXPECT_EQ(result, kNoMemory);
  EXPECT_GT(mapped, limit / 2 - 100);
  // The one that was refused is mapped, without access.
  const DevicePtr refused = device.At(base, 2 * (mapped - 1));
  EXPECT_EQ(device.GetAccess(refused), AccessFlags::kNone);
  DevicePtr more = 0;
  EXPECT_EQ(device->MemAddressReserve(&more, cpu::HostPageBytes(), 0, 0, 0),
            kNoMemory);
  // The process still has room, and so has the device once some are gone.
  std::vector<uint8_t> host(64 * kMiB);
  device.Unmap(base);
  device.Unmap(device.At(base, 2));
  device.SetAccess(refused);
}

TEST(RealStorageTest, ASetAccessBeyondTheLimitChangesNothing) {
  const auto limit =
      static_cast<uint64_t>(KernelMappingBudget::OfProcess().limit());
  if (limit > 200000) GTEST_SKIP() << "this host allows " << limit;
  CpuTestDevice device(HostPageGranules(limit * cpu::HostPageBytes()));
  // One handle, over and over: no two neighbours can share a kernel mapping.
  const uint64_t too_many = limit + 1;
  const DevicePtr base = device.Reserve(too_many);
  const PhysicalHandle handle = device.Create();
  for (uint64_t i = 0; i < too_many; ++i) {
    device.Map(device.At(base, i), handle);
  }
  device.SetAccess(device.At(base, 1), 1, AccessFlags::kRead);
  const int64_t used = KernelMappingBudget::OfProcess().used();
  EXPECT_EQ(device.TrySetAccess(base, too_many, AccessFlags::kReadWrite),
            kNoMemory);
  EXPECT_EQ(KernelMappingBudget::OfProcess().used(), used);
  EXPECT_EQ(KernelMappingsIn(base, too_many * cpu::HostPageBytes()), 3);
  EXPECT_EQ(device.GetAccess(base), AccessFlags::kNone);
  EXPECT_EQ(device.GetAccess(device.At(base, 1)), AccessFlags::kRead);
  EXPECT_EQ(device->MemsetD8Async(base, 0, 1, nullptr),
            DriverResult::kInvalidValue);
}

TEST(RealStorageTest, CreationIsRefusedBeyondWhatTheHostHasFree) {
  const uint64_t available_bytes = cpu::HostAvailableBytes();
  CpuDriverOptions options;
  options.device_bytes = 4 * available_bytes;
  options.poison = false;
  CpuTestDevice device(options);
  const uint64_t all_granules = device.FreeBytes() / device.granule_bytes();
  EXPECT_EQ(device.TryCreate(all_granules / 2), kNoMemory);
  // Also in parts that are not touched yet. (Other processes come and go: what
  // the host has free may change by some, but not by so much.)
  const uint64_t part = all_granules * 3 / 20;
  EXPECT_EQ(device.TryCreate(part), kOk);
  EXPECT_EQ(device.TryCreate(part), kNoMemory);
  EXPECT_EQ(device.FreeBytes(), (all_granules - part) * device.granule_bytes());
}

TEST(RealStorageTest, ReleasedMemoryReturnsToTheHost) {
  CpuDriverOptions options;
  options.device_bytes = 64 * kMiB;
  CpuTestDevice device(options);
  const PhysicalHandle kept = device.Create();
  const PhysicalHandle released = device.Create(16);
  EXPECT_EQ(ResidentDeviceBytes(), 34 * kMiB);
  EXPECT_EQ(device->MemRelease(released), kOk);
  EXPECT_EQ(ResidentDeviceBytes(), 2 * kMiB);
  EXPECT_EQ(device->MemRelease(kept), kOk);
  EXPECT_EQ(ResidentDeviceBytes(), 0u);
}

TEST(RealStorageTest, TheDefaultDeviceIsWhatTheHostHasToSpare) {
  CpuTestDevice device{CpuDriverOptions()};
  EXPECT_GT(device.FreeBytes(), cpu::HostAvailableBytes() / 4);
  EXPECT_LT(device.FreeBytes(), cpu::HostAvailableBytes() * 2);
}

TEST(RealStorageTest, AHintIsFollowedWhereItCanBe) {
  CpuTestDevice device(SmallRealOptions());
  const uint64_t bytes = 4 * device.granule_bytes();
  const DevicePtr base = device.Reserve(4);
  ASSERT_EQ(device->MemAddressFree(base, bytes), kOk);
  DevicePtr again = 0;
  ASSERT_EQ(device->MemAddressReserve(&again, bytes, 0, base, 0), kOk);
  EXPECT_EQ(again, base);
  DevicePtr elsewhere = 0;
  ASSERT_EQ(device->MemAddressReserve(&elsewhere, bytes, 0, base, 0), kOk);
  EXPECT_NE(elsewhere, base);
}

}  // namespace
}  // namespace firn::cpu_testing

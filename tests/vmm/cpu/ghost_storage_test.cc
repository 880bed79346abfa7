// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/ghost_storage.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "firn/vmm/cpu/kernel_mapping_budget.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(GhostStorageTest, A141GiBDeviceFitsIntoASmallProcess) {
  constexpr uint64_t kGranules = 72192;
  CpuDriverOptions options = GhostOptions();
  options.device_bytes = kGranules * 2 * kMiB;
  const uint64_t before_bytes = ResidentBytes();
  CpuTestDevice device(options);
  // Every handle is mapped at six addresses.
  constexpr uint64_t kMappings = 6 * kGranules;
  const DevicePtr base = device.Reserve(kMappings);
  std::vector<PhysicalHandle> handles;
  for (uint64_t i = 0; i < kGranules; ++i) handles.push_back(device.Create());
  EXPECT_EQ(device.FreeBytes(), 0u);
  EXPECT_EQ(device.TryCreate(1), DriverResult::kOutOfMemory);
  for (uint64_t i = 0; i < kMappings; ++i) {
    device.Map(device.At(base, i), handles[i % kGranules]);
    device.SetAccess(device.At(base, i));
  }
  // Sanitizers keep books of their own beside every byte.
  const uint64_t books =
      testing::kUnderThreadSanitizer || testing::kUnderAddressSanitizer ? 4 : 1;
  EXPECT_LT(ResidentBytes(), before_bytes + books * 64 * kMiB);
  for (uint64_t i = 0; i < kMappings; ++i) {
    device.Unmap(device.At(base, i));
  }
  for (const PhysicalHandle handle : handles) {
    EXPECT_EQ(device->MemRelease(handle), kOk);
  }
  EXPECT_EQ(device.FreeBytes(), options.device_bytes);
  EXPECT_EQ(device->MemAddressFree(base, kMappings * 2 * kMiB), kOk);
}

TEST(GhostStorageTest, ReservationsCountAsKernelMappings) {
  auto& budget = cpu::KernelMappingBudget::OfProcess();
  const int64_t used = budget.used();
  {
    CpuTestDevice device(GhostOptions());
    const DevicePtr base = device.Reserve(1);
    device.Reserve(3);
    EXPECT_EQ(budget.used(), used + 2);
    EXPECT_EQ(device->MemAddressFree(base, device.granule_bytes()), kOk);
    EXPECT_EQ(budget.used(), used + 1);
    const int64_t rest = budget.limit() - budget.used();
    ASSERT_TRUE(budget.TryAdd(rest));
    DevicePtr address = 0;
    EXPECT_EQ(
        device->MemAddressReserve(&address, device.granule_bytes(), 0, 0, 0),
        DriverResult::kOutOfMemory);
    EXPECT_THAT(device->last_report(), ::testing::HasSubstr("max_map_count"));
    budget.Remove(rest);
    // What was refused for another reason counts for nothing.
    EXPECT_EQ(device->MemAddressReserve(&address, uint64_t{1} << 60, 0, 0, 0),
              DriverResult::kOutOfMemory);
    EXPECT_EQ(budget.used(), used + 1);
  }
  EXPECT_EQ(budget.used(), used);
}

TEST(GhostStorageTest, ManyCallsCoverManyGranulesAtOnce) {
  constexpr uint64_t kGranules = 10000;
  CpuTestDevice device(GhostOptions());
  const DevicePtr base = device.Reserve(kGranules);
  for (uint64_t i = 0; i < kGranules; ++i) {
    device.Map(device.At(base, i), device.Create());
  }
  device.SetAccess(base, kGranules);
  EXPECT_EQ(device->MemsetD8Async(base, 0, kGranules * 2 * kMiB, nullptr), kOk);
  EXPECT_EQ(KernelMappingsIn(base, kGranules * 2 * kMiB), 1);
  device.Unmap(base, kGranules);
  EXPECT_EQ(device->MemsetD8Async(base, 0, 1, nullptr),
            DriverResult::kInvalidValue);
}

TEST(GhostStorageTest, CopiesAndKernelsAreCheckedButNotRun) {
  CpuTestDevice device(GhostOptions());
  const DevicePtr base = device.NewMemory();
  bool ran = false;
  EXPECT_EQ(device->LaunchKernel(nullptr, {KernelRange{base, 64, true}},
                                 [&ran] { ran = true; }),
            kOk);
  // As if the device were endlessly fast.
  EXPECT_EQ(device->StreamQuery(nullptr), kOk);
  EXPECT_FALSE(ran);
  uint8_t host = 123;
  EXPECT_EQ(device->MemcpyDtoHAsync(&host, base, 1, nullptr), kOk);
  EXPECT_EQ(device->CtxSynchronize(), kOk);
  EXPECT_EQ(host, 123);
}

TEST(GhostStorageTest, EventsAreReadyAtOnce) {
  CpuTestDevice device(GhostOptions());
  const DevicePtr base = device.NewMemory();
  StreamHandle stream = nullptr;
  EventHandle event = nullptr;
  ASSERT_EQ(device->StreamCreate(&stream, kStreamNonBlocking), kOk);
  ASSERT_EQ(device->EventCreate(&event, kEventDisableTiming), kOk);
  EXPECT_EQ(device->MemsetD8Async(base, 0, 64, stream), kOk);
  EXPECT_EQ(device->EventRecord(event, stream), kOk);
  EXPECT_EQ(device->EventQuery(event), kOk);
}

TEST(GhostStorageTest, TwoDevicesShareNoAddress) {
  CpuTestDevice first(GhostOptions());
  CpuTestDevice second(GhostOptions());
  const uint64_t bytes = 1000 * first.granule_bytes();
  const DevicePtr a = first.Reserve(1000);
  const DevicePtr b = second.Reserve(1000);
  EXPECT_TRUE(a + bytes <= b || b + bytes <= a);
}

}  // namespace
}  // namespace firn::cpu_testing

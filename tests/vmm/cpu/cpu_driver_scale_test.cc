// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Devices of the size that users have.

#include <cstdint>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cpu/host_memory.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

constexpr uint64_t kGranuleBytes = 2 * kMiB;

uint64_t* WordAt(DevicePtr address) {
  return static_cast<uint64_t*>(ToPointer(address));
}

TEST(CpuDriverScaleTest, SeventyThousandGhostGranulesAreMappedAndMoved) {
  constexpr uint64_t kGranules = 70'000;
  CpuDriverOptions options = GhostOptions();
  options.device_bytes = kGranules * kGranuleBytes;
  CpuTestDevice device(options);
  const DevicePtr base = device.Reserve(kGranules);
  std::vector<PhysicalHandle> handles;
  for (uint64_t i = 0; i < kGranules; ++i) {
    handles.push_back(device.Create());
    device.Map(device.At(base, i), handles[i]);
  }
  device.SetAccess(base, kGranules);
  EXPECT_EQ(device.TryCreate(1), DriverResult::kOutOfMemory);
  for (uint64_t i = 0; i < kGranules; ++i) {
    device.Unmap(device.At(base, i));
    device.Map(device.At(base, i), handles[kGranules - 1 - i]);
    device.SetAccess(device.At(base, i));
  }
  PhysicalHandle first = 0;
  EXPECT_EQ(device->MemRetainAllocationHandle(&first, base),
            DriverResult::kSuccess);
  EXPECT_EQ(first, handles.back());
  device.Unmap(base, kGranules);
  EXPECT_EQ(device->MemAddressFree(base, kGranules * kGranuleBytes),
            DriverResult::kSuccess);
}

TEST(CpuDriverScaleTest, EightGiBOfRealGranulesKeepTheirContentsWhenMoved) {
  constexpr uint64_t kGranules = 4096;
  // Each granule gets at least a page of the host's, a large one where the
  // host hands those out.
  if (cpu::HostAvailableBytes() < uint64_t{12} << 30) {
    GTEST_SKIP() << "needs a host with 12 GiB to spare";
  }
  CpuDriverOptions options;
  options.device_bytes = kGranules * kGranuleBytes;
  options.poison = false;
  CpuTestDevice device(options);
  const DevicePtr base = device.Reserve(kGranules);
  std::vector<PhysicalHandle> handles;
  for (uint64_t i = 0; i < kGranules; ++i) {
    handles.push_back(device.Create());
    device.Map(device.At(base, i), handles[i]);
  }
  device.SetAccess(base, kGranules);
  // One run of the file, one mapping of the kernel.
  EXPECT_EQ(KernelMappingsIn(base, kGranules * kGranuleBytes), 1);
  const KernelRange all{base, kGranules * kGranuleBytes, /*writes=*/true};
  EXPECT_EQ(device->LaunchKernel(nullptr, {all},
                                 [base, &device] {
                                   for (uint64_t i = 0; i < kGranules; ++i) {
                                     *WordAt(device.At(base, i)) = i;
                                   }
                                 }),
            DriverResult::kSuccess);
  EXPECT_EQ(device->CtxSynchronize(), DriverResult::kSuccess);
  // The order reversed: no two neighbours are a run any more.
  device.Unmap(base, kGranules);
  for (uint64_t i = 0; i < kGranules; ++i) {
    device.Map(device.At(base, i), handles[kGranules - 1 - i]);
  }
  device.SetAccess(base, kGranules);
  uint64_t wrong = 0;
  EXPECT_EQ(device->LaunchKernel(nullptr, {all},
                                 [base, &device, &wrong] {
                                   for (uint64_t i = 0; i < kGranules; ++i) {
                                     if (*WordAt(device.At(base, i)) !=
                                         kGranules - 1 - i) {
                                       ++wrong;
                                     }
                                   }
                                 }),
            DriverResult::kSuccess);
  EXPECT_EQ(device->CtxSynchronize(), DriverResult::kSuccess);
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace firn::cpu_testing

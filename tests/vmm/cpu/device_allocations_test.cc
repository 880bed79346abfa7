// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory in one call on the CPU driver: beyond the contract, how it fails, and
// a device that has nothing else.

#include "firn/vmm/cpu/device_allocations.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kNotSupported = DriverResult::kNotSupported;
constexpr uint64_t kGranule = uint64_t{64} << 10;

std::vector<std::unique_ptr<CpuDriver>> MakeDevices(CpuDriverOptions options) {
  options.granularity_bytes = kGranule;
  options.device_bytes = 32 * kGranule;
  auto devices = CpuDriver::CreateDevices(options);
  FIRN_EXPECT_OK(devices.status());
  return *std::move(devices);
}

uint64_t FreeBytes(Driver& driver) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  EXPECT_EQ(driver.MemGetInfo(&free_bytes, &total_bytes), kOk);
  return free_bytes;
}

TEST(DeviceAllocationsTest, WhatCannotBeMadeAccessibleLeavesNothingBehind) {
  for (const CpuStorage storage : {CpuStorage::kReal, CpuStorage::kGhost}) {
    CpuDriverOptions options;
    options.storage = storage;
    options.max_mappings = 2;
    const auto devices = MakeDevices(options);
    CpuDriver& driver = *devices[0];
    DevicePtr first = 0;
    DevicePtr second = 0;
    DevicePtr third = 7;
    ASSERT_EQ(driver.MemAlloc(&first, 1), kOk);
    ASSERT_EQ(driver.MemAlloc(&second, 1), kOk);
    const uint64_t free_bytes = FreeBytes(driver);
    EXPECT_EQ(driver.MemAlloc(&third, 1), DriverResult::kOutOfMemory);
    EXPECT_EQ(third, 7u);
    EXPECT_EQ(FreeBytes(driver), free_bytes);
    EXPECT_EQ(driver.MemFree(first), kOk);
    EXPECT_EQ(driver.MemAlloc(&third, 1), kOk);
    EXPECT_EQ(driver.MemFree(third), kOk);
    EXPECT_EQ(driver.MemFree(second), kOk);
    EXPECT_EQ(FreeBytes(driver), 32 * kGranule);
  }
}

TEST(DeviceAllocationsTest, TheLimitOfHandlesHoldsForThem) {
  CpuDriverOptions options;
  options.max_handles = 1;
  const auto devices = MakeDevices(options);
  DevicePtr address = 0;
  ASSERT_EQ(devices[0]->MemAlloc(&address, 1), kOk);
  DevicePtr other = 0;
  EXPECT_EQ(devices[0]->MemAlloc(&other, 1), DriverResult::kOutOfMemory);
  EXPECT_EQ(devices[0]->MemFree(address), kOk);
  EXPECT_EQ(devices[0]->MemAlloc(&other, 1), kOk);
}

TEST(DeviceAllocationsTest, TheDeviceThatMadeItAloneHasAccess) {
  CpuDriverOptions options;
  options.device_count = 2;
  const auto devices = MakeDevices(options);
  DevicePtr address = 0;
  ASSERT_EQ(devices[1]->MemAlloc(&address, 5), kOk);
  EXPECT_EQ(FreeBytes(*devices[0]), 32 * kGranule);
  EXPECT_EQ(FreeBytes(*devices[1]), 31 * kGranule);
  EXPECT_EQ(devices[1]->MemsetD8Async(address, 1, 5, nullptr), kOk);
  EXPECT_EQ(devices[0]->MemsetD8Async(address, 1, 5, nullptr),
            DriverResult::kInvalidValue);
  // Any device of the process takes it back.
  EXPECT_EQ(devices[0]->MemFree(address), kOk);
  EXPECT_EQ(FreeBytes(*devices[1]), 32 * kGranule);
}

TEST(DeviceAllocationsTest, ARefusedFreeSaysWhatWouldBeRight) {
  const auto devices = MakeDevices(CpuDriverOptions());
  EXPECT_EQ(devices[0]->MemFree(kGranule), DriverResult::kInvalidValue);
  EXPECT_THAT(devices[0]->last_report(), HasSubstr("cuMemFree(address=65536)"));
  EXPECT_THAT(devices[0]->last_report(), HasSubstr("allocated"));
}

class NoVirtualMemoryTest : public ::testing::TestWithParam<CpuStorage> {
 protected:
  NoVirtualMemoryTest() {
    CpuDriverOptions options;
    options.virtual_memory = false;
    options.storage = GetParam();
    devices_ = MakeDevices(options);
  }
  CpuDriver& driver() { return *devices_[0]; }

  std::vector<std::unique_ptr<CpuDriver>> devices_;
};

TEST_P(NoVirtualMemoryTest, TheAttributesSaySo) {
  for (const DeviceAttribute attribute :
       {DeviceAttribute::kVirtualMemoryManagement,
        DeviceAttribute::kPosixFileDescriptorHandles,
        DeviceAttribute::kGpuDirectRdmaWithVmm,
        DeviceAttribute::kHostNumaVirtualMemoryManagement,
        DeviceAttribute::kHostVirtualMemoryManagement}) {
    int32_t value = 7;
    ASSERT_EQ(driver().DeviceGetAttribute(&value, attribute), kOk);
    EXPECT_EQ(value, 0) << static_cast<int>(attribute);
  }
}

TEST_P(NoVirtualMemoryTest, ItsCallsAreNotSupported) {
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location = {LocationType::kDevice, 0};
  const AccessDesc desc{prop.location, AccessFlags::kReadWrite};
  size_t bytes = 0;
  DevicePtr address = 0;
  PhysicalHandle handle = 0;
  AccessFlags flags = AccessFlags::kNone;
  int file = -1;
  CpuDriver& d = driver();
  EXPECT_EQ(
      d.MemGetAllocationGranularity(&bytes, &prop, GranularityKind::kMinimum),
      kNotSupported);
  EXPECT_EQ(d.MemAddressReserve(&address, kGranule, 0, 0, 0), kNotSupported);
  EXPECT_EQ(d.MemAddressFree(kGranule, kGranule), kNotSupported);
  EXPECT_EQ(d.MemCreate(&handle, kGranule, &prop, 0), kNotSupported);
  EXPECT_EQ(d.MemRelease(1), kNotSupported);
  EXPECT_EQ(d.MemMap(kGranule, kGranule, 0, 1, 0), kNotSupported);
  EXPECT_EQ(d.MemUnmap(kGranule, kGranule), kNotSupported);
  EXPECT_EQ(d.MemSetAccess(kGranule, kGranule, &desc, 1), kNotSupported);
  EXPECT_EQ(d.MemGetAccess(&flags, &desc.location, kGranule), kNotSupported);
  EXPECT_EQ(d.MemRetainAllocationHandle(&handle, kGranule), kNotSupported);
  EXPECT_EQ(d.MemGetAllocationPropertiesFromHandle(&prop, 1), kNotSupported);
  EXPECT_EQ(d.MemExportToShareableHandle(
                &file, 1, ShareableHandleType::kPosixFileDescriptor, 0),
            kNotSupported);
  EXPECT_EQ(d.MemImportFromShareableHandle(
                &handle, nullptr, ShareableHandleType::kPosixFileDescriptor),
            kNotSupported);
  EXPECT_THAT(d.last_report(), HasSubstr("virtual memory management"));
}

TEST_P(NoVirtualMemoryTest, MemoryIsAllocatedAndUsedAllTheSame) {
  CpuDriver& d = driver();
  DevicePtr address = 0;
  ASSERT_EQ(d.MemAlloc(&address, 3 * kGranule), kOk);
  EXPECT_EQ(FreeBytes(d), 29 * kGranule);
  ASSERT_EQ(d.MemsetD8Async(address, 0x5a, 3 * kGranule, nullptr), kOk);
  std::vector<unsigned char> contents(kGranule);
  ASSERT_EQ(
      d.MemcpyDtoHAsync(contents.data(), address + kGranule, kGranule, nullptr),
      kOk);
  ASSERT_EQ(d.CtxSynchronize(), kOk);
  if (GetParam() == CpuStorage::kReal) {
    EXPECT_THAT(contents, ::testing::Each(0x5a));
  }
  DevicePtr base = 0;
  size_t bytes = 0;
  EXPECT_EQ(d.MemGetAddressRange(&base, &bytes, address + 1), kOk);
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 3 * kGranule);
  EXPECT_EQ(d.MemFree(address), kOk);
  EXPECT_EQ(FreeBytes(d), 32 * kGranule);
}

INSTANTIATE_TEST_SUITE_P(Storages, NoVirtualMemoryTest,
                         ::testing::Values(CpuStorage::kReal,
                                           CpuStorage::kGhost),
                         [](const auto& info) {
                           return info.param == CpuStorage::kReal ? "Real"
                                                                  : "Ghost";
                         });

}  // namespace
}  // namespace firn::testing

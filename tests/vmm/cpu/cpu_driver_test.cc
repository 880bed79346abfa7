// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/cpu_driver.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

TEST(CpuDriverTest, CreateNamesTheOptionThatIsWrong) {
  CpuDriverOptions options = GhostOptions();
  options.granularity_bytes = 3 << 20;
  EXPECT_THAT(CpuDriver::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("granularity_bytes is 3145728")));
  options.granularity_bytes = 2048;
  EXPECT_THAT(CpuDriver::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("granularity_bytes is 2048")));
  options = GhostOptions();
  options.device_bytes = kMiB;
  EXPECT_THAT(CpuDriver::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("device_bytes is 1048576")));
}

TEST(CpuDriverTest, DeviceBytesAreRoundedDownToWholeGranules) {
  CpuDriverOptions options = SmallRealOptions();
  options.device_bytes = 5 * options.granularity_bytes + 1;
  CpuTestDevice device(options);
  EXPECT_EQ(device.FreeBytes(), 5 * options.granularity_bytes);
}

TEST(CpuDriverTest, AGhostHas80GiBUnlessToldOtherwise) {
  CpuTestDevice device(GhostOptions());
  EXPECT_EQ(device.FreeBytes(), uint64_t{80} << 30);
}

TEST(CpuDriverTest, IdentityNamesTheBackendAndTheDevice) {
  CpuDriverOptions options = GhostOptions();
  options.device_name = "a ghost";
  CpuTestDevice device(options);
  EXPECT_EQ(device->identity().backend, "cpu");
  EXPECT_EQ(device->identity().device_name, "a ghost");
  EXPECT_EQ(device->identity().driver_version, 13000);
}

TEST(CpuDriverTest, ContentsSurviveARemapToAnotherAddress) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr base = device.Reserve(2);
  const PhysicalHandle handle = device.Create();
  const auto bytes = Pattern(device.granule_bytes(), 3);
  device.Map(base, handle);
  device.SetAccess(base);
  device.Write(base, bytes);
  device.Unmap(base);
  device.Map(device.At(base, 1), handle);
  device.SetAccess(device.At(base, 1));
  EXPECT_EQ(device.Read(device.At(base, 1), bytes.size()), bytes);
}

TEST(CpuDriverTest, AGranuleCanBeReplacedUnderAnUnchangedAddress) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr user = device.NewMemory(3);
  const DevicePtr staging = device.Reserve(1);
  const auto bytes = Pattern(3 * device.granule_bytes(), 5);
  device.Write(user, bytes);
  const PhysicalHandle target = device.Create();
  device.Map(staging, target);
  device.SetAccess(staging);
  const DevicePtr moved = device.At(user, 1);
  EXPECT_EQ(
      device->MemcpyDtoDAsync(staging, moved, device.granule_bytes(), nullptr),
      DriverResult::kSuccess);
  EXPECT_EQ(device->CtxSynchronize(), DriverResult::kSuccess);
  device.Unmap(moved);
  device.Map(moved, target);
  device.SetAccess(moved);
  EXPECT_EQ(device.Read(user, bytes.size()), bytes);
}

TEST(CpuDriverTest, TwoAddressesOfOneHandleShowTheSameBytes) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr base = device.Reserve(2);
  const PhysicalHandle handle = device.Create();
  device.Map(base, handle);
  device.Map(device.At(base, 1), handle);
  device.SetAccess(base, 2);
  const auto bytes = Pattern(device.granule_bytes(), 9);
  device.Write(base, bytes);
  EXPECT_EQ(device.Read(device.At(base, 1), bytes.size()), bytes);
  device.Unmap(base);
  EXPECT_EQ(device.Read(device.At(base, 1), bytes.size()), bytes);
}

TEST(CpuDriverTest, FreshMemoryIsPoisonedAlsoWhenItIsUsedAgain) {
  CpuDriverOptions options = SmallRealOptions();
  options.device_bytes = options.granularity_bytes;
  CpuTestDevice device(options);
  const DevicePtr base = device.Reserve(1);
  for (int round = 0; round < 2; ++round) {
    const PhysicalHandle handle = device.Create();
    device.Map(base, handle);
    device.SetAccess(base);
    const auto bytes = device.Read(base, device.granule_bytes());
    for (uint64_t i = 0; i < bytes.size(); i += sizeof(kCpuPoisonWord)) {
      ASSERT_EQ(std::memcmp(&bytes[i], &kCpuPoisonWord, sizeof(kCpuPoisonWord)),
                0);
    }
    device.Write(base, Pattern(device.granule_bytes(), 1));
    device.Unmap(base);
    EXPECT_EQ(device->MemRelease(handle), DriverResult::kSuccess);
  }
}

TEST(CpuDriverTest, WithoutPoisonFreshMemoryIsZeroAlsoWhenItIsUsedAgain) {
  CpuDriverOptions options = SmallRealOptions();
  options.device_bytes = options.granularity_bytes;
  options.poison = false;
  CpuTestDevice device(options);
  const DevicePtr base = device.Reserve(1);
  const std::vector<uint8_t> zeros(device.granule_bytes(), 0);
  for (int round = 0; round < 2; ++round) {
    const PhysicalHandle handle = device.Create();
    device.Map(base, handle);
    device.SetAccess(base);
    EXPECT_EQ(device.Read(base, device.granule_bytes()), zeros);
    device.Write(base, Pattern(device.granule_bytes(), 1));
    device.Unmap(base);
    EXPECT_EQ(device->MemRelease(handle), DriverResult::kSuccess);
  }
}

TEST(CpuDriverTest, MemoryGoesWhenHandleAndMappingsAreAllGone) {
  CpuTestDevice device(SmallRealOptions());
  const uint64_t all_bytes = device.FreeBytes();
  const DevicePtr base = device.Reserve(2);
  const PhysicalHandle handle = device.Create();
  device.Map(base, handle);
  device.Map(device.At(base, 1), handle);
  EXPECT_EQ(device->MemRelease(handle), DriverResult::kSuccess);
  EXPECT_EQ(device.FreeBytes(), all_bytes - device.granule_bytes());
  device.Unmap(base);
  EXPECT_EQ(device.FreeBytes(), all_bytes - device.granule_bytes());
  device.Unmap(device.At(base, 1));
  EXPECT_EQ(device.FreeBytes(), all_bytes);
}

TEST(CpuDriverTest, ARetainedHandleKeepsMemoryAlive) {
  CpuTestDevice device(SmallRealOptions());
  const uint64_t all_bytes = device.FreeBytes();
  const DevicePtr base = device.Reserve(2);
  const PhysicalHandle handle = device.Create();
  device.Map(base, handle);
  device.SetAccess(base);
  const auto bytes = Pattern(device.granule_bytes(), 7);
  device.Write(base, bytes);
  // Also when only the mapping was left.
  EXPECT_EQ(device->MemRelease(handle), DriverResult::kSuccess);
  PhysicalHandle retained = 0;
  EXPECT_EQ(device->MemRetainAllocationHandle(&retained, base + 99),
            DriverResult::kSuccess);
  EXPECT_EQ(retained, handle);
  device.Unmap(base);
  EXPECT_EQ(device.FreeBytes(), all_bytes - device.granule_bytes());
  device.Map(device.At(base, 1), retained);
  device.SetAccess(device.At(base, 1));
  EXPECT_EQ(device.Read(device.At(base, 1), bytes.size()), bytes);
  device.Unmap(device.At(base, 1));
  EXPECT_EQ(device->MemRelease(retained), DriverResult::kSuccess);
  EXPECT_EQ(device.FreeBytes(), all_bytes);
}

TEST(CpuDriverTest, HandlesAreNeverUsedAgain) {
  CpuTestDevice device(GhostOptions());
  std::vector<PhysicalHandle> handles;
  for (int i = 0; i < 100; ++i) {
    handles.push_back(device.Create());
    EXPECT_EQ(device->MemRelease(handles.back()), DriverResult::kSuccess);
  }
  std::sort(handles.begin(), handles.end());
  EXPECT_EQ(std::adjacent_find(handles.begin(), handles.end()), handles.end());
  EXPECT_NE(handles.front(), 0u);
}

TEST(CpuDriverTest, ANewMappingStartsWithoutAccess) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr base = device.NewMemory();
  PhysicalHandle handle = 0;
  EXPECT_EQ(device->MemRetainAllocationHandle(&handle, base),
            DriverResult::kSuccess);
  EXPECT_EQ(device.GetAccess(base), AccessFlags::kReadWrite);
  device.Unmap(base);
  device.Map(base, handle);
  EXPECT_EQ(device.GetAccess(base), AccessFlags::kNone);
}

TEST(CpuDriverTest, AccessChangesKeepContents) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr base = device.NewMemory(2);
  const auto bytes = Pattern(2 * device.granule_bytes(), 11);
  device.Write(base, bytes);
  device.SetAccess(base, 2, AccessFlags::kRead);
  EXPECT_EQ(device.Read(base, bytes.size()), bytes);
  device.SetAccess(base, 1, AccessFlags::kNone);
  device.SetAccess(base, 2, AccessFlags::kReadWrite);
  EXPECT_EQ(device.Read(base, bytes.size()), bytes);
}

TEST(CpuDriverTest, ReservationsAreAlignedAsAskedOrToAGranule) {
  CpuTestDevice device(GhostOptions());
  DevicePtr address = 0;
  EXPECT_EQ(device->MemAddressReserve(&address, 4096, 0, 0, 0),
            DriverResult::kSuccess);
  EXPECT_EQ(address % device.granule_bytes(), 0u);
  constexpr uint64_t kAlignment = uint64_t{1} << 33;
  EXPECT_EQ(device->MemAddressReserve(&address, device.granule_bytes(),
                                      kAlignment, 0, 0),
            DriverResult::kSuccess);
  EXPECT_EQ(address % kAlignment, 0u);
}

TEST(CpuDriverTest, WhatIsLeftOverOfAReservationCannotBeMapped) {
  CpuTestDevice device(SmallRealOptions());
  DevicePtr base = 0;
  ASSERT_EQ(
      device->MemAddressReserve(&base, device.granule_bytes() + 4096, 0, 0, 0),
      DriverResult::kSuccess);
  const PhysicalHandle handle = device.Create();
  device.Map(base, handle);
  device.SetAccess(base);
  EXPECT_EQ(
      device->MemMap(device.At(base, 1), device.granule_bytes(), 0, handle, 0),
      DriverResult::kInvalidValue);
  EXPECT_EQ(device->MemsetD8Async(device.At(base, 1), 0, 1, nullptr),
            DriverResult::kInvalidValue);
  device.Unmap(base);
  EXPECT_EQ(device->MemAddressFree(base, device.granule_bytes() + 4096),
            DriverResult::kSuccess);
}

TEST(CpuDriverTest, LargeHandlesAreMappedWithOneCall) {
  CpuDriverOptions options;
  options.device_bytes = 256 * kMiB;
  CpuTestDevice device(options);
  // More than is filled with poison at a time.
  constexpr uint64_t kGranules = 50;
  const DevicePtr base = device.Reserve(kGranules);
  device.Map(base, device.Create(kGranules), kGranules);
  device.SetAccess(base, kGranules);
  const auto last =
      device.Read(device.At(base, kGranules) - sizeof(kCpuPoisonWord),
                  sizeof(kCpuPoisonWord));
  EXPECT_EQ(std::memcmp(last.data(), &kCpuPoisonWord, last.size()), 0);
  EXPECT_EQ(device->MemsetD8Async(base, 0x5A, kGranules * 2 * kMiB, nullptr),
            DriverResult::kSuccess);
  EXPECT_EQ(device.Read(device.At(base, kGranules) - 1, 1),
            std::vector<uint8_t>{0x5A});
  device.Unmap(base, kGranules);
}

TEST(CpuDriverTest, KernelsTouchDeviceAddressesDirectly) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr base = device.NewMemory(2);
  const uint64_t bytes = 2 * device.granule_bytes();
  EXPECT_EQ(
      device->LaunchKernel(nullptr, {KernelRange{base, bytes, true}},
                           [=] { std::memset(ToPointer(base), 0x42, bytes); }),
      DriverResult::kSuccess);
  EXPECT_EQ(device->CtxSynchronize(), DriverResult::kSuccess);
  EXPECT_EQ(device.Read(base, bytes), std::vector<uint8_t>(bytes, 0x42));
}

TEST(CpuDriverTest, DestructionFinishesQueuedWork) {
  int done = 0;
  {
    CpuTestDevice device(SmallRealOptions());
    StreamHandle stream = nullptr;
    ASSERT_EQ(device->StreamCreate(&stream, kStreamDefault),
              DriverResult::kSuccess);
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(device->LaunchKernel(stream, {}, [&done] { ++done; }),
                DriverResult::kSuccess);
    }
  }
  EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace firn::cpu_testing

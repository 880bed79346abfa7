// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Held streams of a device that is lost: on the CPU driver, which has devices
// to spare.

#include <cstdint>

#include "firn/vmm/allocation_props.h"
#include "firn/vmm/driver.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/way.h"

namespace firn::testing {
namespace {

TEST(HeldStreamLossTest, StreamsOfALostDeviceEndLikeAnyOther) {
  FIRN_ASSERT_OK_AND_ASSIGN(const auto devices,
                            OpenDevices(Way::kCpuLazy, DeviceSetOptions()));
  Driver& device = *devices->drivers[0];
  const uint64_t bytes = devices->granule_bytes;
  const AllocationProp prop = MovableProp(0);
  const AccessDesc access = ReadWriteAccess(0);
  DevicePtr address = 0;
  PhysicalHandle handle = 0;
  ASSERT_EQ(device.MemAddressReserve(&address, bytes, bytes, 0, 0),
            DriverResult::kSuccess);
  ASSERT_EQ(device.MemCreate(&handle, bytes, &prop, 0), DriverResult::kSuccess);
  ASSERT_EQ(device.MemMap(address, bytes, 0, handle, 0),
            DriverResult::kSuccess);
  ASSERT_EQ(device.MemSetAccess(address, bytes, &access, 1),
            DriverResult::kSuccess);
  HeldStream waiting(&device);
  ASSERT_EQ(waiting.Hold(), DriverResult::kSuccess);
  HeldStream faulty(&device);
  ASSERT_EQ(faulty.Hold(), DriverResult::kSuccess);
  ASSERT_EQ(faulty.Touch(address, bytes), DriverResult::kSuccess);
  ASSERT_EQ(device.MemUnmap(address, bytes), DriverResult::kSuccess);
  faulty.Release();
  EXPECT_EQ(faulty.Wait(), DriverResult::kIllegalAddress);
  // Both are destroyed now, one while its function still waits.
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/address_map.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

using cpu::AddressMap;
using cpu::SlotRange;

constexpr uint64_t kGranule = 4096;
constexpr DevicePtr kBase = 0x10000000;
constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kInvalid = DriverResult::kInvalidValue;

class AddressMapTest : public ::testing::Test {
 protected:
  AddressMapTest() { map_.AddReservation(kBase, 5000 * kGranule); }

  static DevicePtr At(uint64_t granule) { return kBase + granule * kGranule; }
  void Map(uint64_t granule, uint64_t granules, uint32_t allocation_index) {
    SlotRange range;
    ASSERT_EQ(map_.FindUnmapped(At(granule), granules * kGranule, &range), kOk);
    map_.Map(range, allocation_index);
  }
  void SetAccess(uint64_t granule, uint64_t granules, AccessFlags access) {
    SlotRange range;
    ASSERT_EQ(map_.FindMappings(At(granule), granules * kGranule, &range), kOk);
    map_.SetAccess(range, access);
  }

  AddressMap map_{kGranule};
  SlotRange range_;
};

TEST_F(AddressMapTest, SlotsRememberAllocationPositionAndAccess) {
  // Across the border of what is stored together.
  Map(1020, 10, 7);
  SetAccess(1020, 10, AccessFlags::kRead);
  for (uint32_t i = 0; i < 10; ++i) {
    const cpu::Slot slot = map_.Find(At(1020 + i) + 5);
    EXPECT_TRUE(slot.mapped());
    EXPECT_EQ(slot.allocation_index(), 7u);
    EXPECT_EQ(slot.position(), i);
    EXPECT_EQ(slot.continues(), i != 0);
    EXPECT_EQ(slot.access(), AccessFlags::kRead);
  }
  EXPECT_FALSE(map_.Find(At(1019)).mapped());
  EXPECT_FALSE(map_.Find(At(1030)).mapped());
}

TEST_F(AddressMapTest, NeighboursOfOneAllocationAreTwoMappings) {
  Map(10, 1, 3);
  Map(11, 1, 3);
  EXPECT_EQ(map_.FindMappings(At(10), kGranule, &range_), kOk);
  EXPECT_EQ(map_.FindMappings(At(11), kGranule, &range_), kOk);
  EXPECT_EQ(map_.FindMappings(At(10), 2 * kGranule, &range_), kOk);
  EXPECT_EQ(range_.first, 10u);
  EXPECT_EQ(range_.count, 2u);
}

TEST_F(AddressMapTest, AReservationIsRemovedOnlyWhenEmpty) {
  Map(4999, 1, 1);
  EXPECT_EQ(map_.RemoveReservation(kBase, 5000 * kGranule), kInvalid);
  ASSERT_EQ(map_.FindMappings(At(4999), kGranule, &range_), kOk);
  map_.Unmap(range_);
  EXPECT_EQ(map_.RemoveReservation(kBase, 5000 * kGranule), kOk);
  EXPECT_EQ(map_.FindUnmapped(kBase, kGranule, &range_), kInvalid);
}

TEST_F(AddressMapTest, UnmappingTakesTheAccessWithIt) {
  Map(0, 2, 1);
  SetAccess(0, 2, AccessFlags::kReadWrite);
  ASSERT_EQ(map_.FindMappings(At(0), 2 * kGranule, &range_), kOk);
  map_.Unmap(range_);
  EXPECT_FALSE(map_.Permits(At(0), 1, AccessFlags::kRead));
  Map(0, 2, 1);
  EXPECT_FALSE(map_.Permits(At(0), 1, AccessFlags::kRead));
}

TEST_F(AddressMapTest, PermissionIsByTheByte) {
  Map(0, 1, 1);
  Map(1, 1, 2);
  SetAccess(0, 1, AccessFlags::kReadWrite);
  SetAccess(1, 1, AccessFlags::kRead);
  constexpr auto kRead = AccessFlags::kRead;
  constexpr auto kReadWrite = AccessFlags::kReadWrite;
  EXPECT_TRUE(map_.Permits(At(0), kGranule, kReadWrite));
  EXPECT_FALSE(map_.Permits(At(0), kGranule + 1, kReadWrite));
  EXPECT_TRUE(map_.Permits(At(0), 2 * kGranule, kRead));
  EXPECT_FALSE(map_.Permits(At(0), 2 * kGranule + 1, kRead));
  EXPECT_TRUE(map_.Permits(At(1) + 1, kGranule - 1, kRead));
  EXPECT_FALSE(map_.Permits(kBase - 1, 2, kRead));
  EXPECT_TRUE(map_.Permits(kBase, 0, kReadWrite));
  EXPECT_FALSE(map_.Permits(kBase, ~uint64_t{0}, kRead));
}

TEST_F(AddressMapTest, PermissionSpansReservationsThatTouch) {
  map_.AddReservation(At(5000), kGranule + 100);
  Map(4999, 1, 1);
  Map(5000, 1, 2);
  SetAccess(4999, 1, AccessFlags::kRead);
  SetAccess(5000, 1, AccessFlags::kRead);
  EXPECT_TRUE(map_.Permits(At(4999), 2 * kGranule, AccessFlags::kRead));
  // The rest of the second reservation is no granule.
  EXPECT_FALSE(map_.Permits(At(4999), 2 * kGranule + 1, AccessFlags::kRead));
  EXPECT_FALSE(map_.Find(At(5001)).mapped());
  EXPECT_EQ(map_.FindMappings(At(4999), 2 * kGranule, &range_), kInvalid);
}

}  // namespace
}  // namespace firn::cpu_testing

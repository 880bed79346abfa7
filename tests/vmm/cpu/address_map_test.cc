// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/address_map.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

using cpu::AccessChange;
using cpu::AddressMap;
using cpu::ReservedRange;
using cpu::SlotRange;

constexpr uint64_t kGranule = 4096;
constexpr DevicePtr kBase = 0x10000000;

class AddressMapTest : public ::testing::Test {
 protected:
  AddressMapTest() { map_.AddReservation(kBase, 5000 * kGranule, nullptr); }

  static DevicePtr At(uint64_t granule) { return kBase + granule * kGranule; }
  bool IsMappings(uint64_t granule, uint64_t granules) {
    return map_.FindMappings(At(granule), granules * kGranule, &range_).ok();
  }
  void Map(uint64_t granule, uint64_t granules, uint32_t handle_index) {
    SlotRange range;
    ASSERT_TRUE(
        map_.FindGranules(At(granule), granules * kGranule, &range).ok());
    map_.Map(range, handle_index);
  }
  void SetAccess(uint64_t granule, uint64_t granules, int location,
                 AccessFlags access) {
    SlotRange range;
    ASSERT_TRUE(
        map_.FindMappings(At(granule), granules * kGranule, &range).ok());
    AccessChange change;
    ASSERT_TRUE(change.Add(location, access));
    map_.ChangeAccess(range, change);
  }

  AddressMap map_{kGranule};
  SlotRange range_;
};

TEST_F(AddressMapTest, SlotsRememberHandlePositionAndAccess) {
  // Across the border of what is stored together.
  Map(1020, 10, 7);
  SetAccess(1020, 10, 3, AccessFlags::kRead);
  SetAccess(1020, 10, cpu::kHostLocation, AccessFlags::kReadWrite);
  for (uint32_t i = 0; i < 10; ++i) {
    const cpu::Slot slot = map_.Find(At(1020 + i) + 5);
    EXPECT_TRUE(slot.mapped());
    EXPECT_EQ(slot.handle_index(), 7u);
    EXPECT_EQ(slot.position(), i);
    EXPECT_EQ(slot.begins(), i == 0);
    EXPECT_EQ(slot.continues(), i != 0);
    EXPECT_EQ(slot.access().of(3), AccessFlags::kRead);
    EXPECT_EQ(slot.access().of(2), AccessFlags::kNone);
    EXPECT_EQ(slot.access().of(cpu::kHostLocation), AccessFlags::kReadWrite);
    EXPECT_EQ(slot.access().any(), AccessFlags::kReadWrite);
  }
  EXPECT_FALSE(map_.Find(At(1019)).mapped());
  EXPECT_FALSE(map_.Find(At(1030)).mapped());
}

TEST_F(AddressMapTest, NeighboursOfOneHandleAreTwoMappings) {
  Map(10, 1, 3);
  Map(11, 1, 3);
  EXPECT_TRUE(IsMappings(10, 1));
  EXPECT_TRUE(IsMappings(11, 1));
  EXPECT_TRUE(IsMappings(10, 2));
  EXPECT_EQ(range_.first, 10u);
  EXPECT_EQ(range_.count, 2u);
}

TEST_F(AddressMapTest, ARowOfMappingsIsNeitherCutNorHoled) {
  Map(1, 3, 1);
  Map(4, 1, 2);
  EXPECT_TRUE(IsMappings(1, 4));
  EXPECT_FALSE(IsMappings(1, 2));
  EXPECT_FALSE(IsMappings(2, 3));
  EXPECT_FALSE(IsMappings(1, 5));
  EXPECT_FALSE(IsMappings(0, 4));
  // Without a cut, but with holes.
  EXPECT_TRUE(map_.FindUncut(At(0), 6 * kGranule, &range_).ok());
  EXPECT_FALSE(map_.FindUncut(At(0), 3 * kGranule, &range_).ok());
}

TEST_F(AddressMapTest, AMappingCanBeSplit) {
  Map(1, 3, 1);
  map_.Split(map_.ReservationOf(kBase), 2);
  EXPECT_TRUE(IsMappings(1, 1));
  EXPECT_TRUE(IsMappings(2, 2));
  EXPECT_EQ(map_.Find(At(2)).position(), 1u);
}

TEST_F(AddressMapTest, RangesLieInOneReservation) {
  const uint64_t bytes = 5000 * kGranule;
  EXPECT_TRUE(map_.FindGranules(kBase, bytes, &range_).ok());
  EXPECT_FALSE(map_.FindGranules(kBase, bytes + kGranule, &range_).ok());
  EXPECT_FALSE(map_.FindGranules(kBase + bytes, kGranule, &range_).ok());
  EXPECT_FALSE(map_.FindGranules(kBase, 0, &range_).ok());
  EXPECT_FALSE(map_.FindGranules(kBase + 1, kGranule, &range_).ok());
  EXPECT_FALSE(map_.FindGranules(kBase, kGranule + 1, &range_).ok());
  EXPECT_FALSE(map_.FindGranules(kBase, ~uint64_t{0} << 20, &range_).ok());
  // The rest of a reservation is no granule.
  map_.AddReservation(kBase + bytes, kGranule + 100, nullptr);
  EXPECT_FALSE(map_.FindGranules(kBase + bytes, 2 * kGranule, &range_).ok());
  EXPECT_FALSE(map_.Find(kBase + bytes + kGranule + 50).mapped());
  EXPECT_FALSE(map_.FindGranules(At(4999), 2 * kGranule, &range_).ok());
}

TEST_F(AddressMapTest, AReservationIsFoundByItsStartAndSize) {
  ReservedRange* reservation = nullptr;
  EXPECT_FALSE(map_.FindReservation(kBase, kGranule, &reservation).ok());
  EXPECT_FALSE(map_.FindReservation(At(1), 4999 * kGranule, &reservation).ok());
  ASSERT_TRUE(map_.FindReservation(kBase, 5000 * kGranule, &reservation).ok());
  EXPECT_EQ(reservation, map_.ReservationOf(At(4999)));
  map_.RemoveReservation(reservation);
  EXPECT_EQ(map_.ReservationOf(kBase), nullptr);
}

TEST_F(AddressMapTest, SlotsAndNewReservationsRememberUnmaps) {
  ReservedRange* const old = map_.ReservationOf(kBase);
  Map(4999, 1, 1);
  EXPECT_EQ(old->mapped_granules(), 1u);
  EXPECT_EQ(map_.Find(At(4999)).unmap_epoch(), 0u);
  ASSERT_TRUE(IsMappings(4999, 1));
  map_.Unmap(range_, 17);
  EXPECT_EQ(old->mapped_granules(), 0u);
  EXPECT_EQ(map_.Find(At(4999)).unmap_epoch(), 17u);
  EXPECT_EQ(map_.Find(At(4998)).unmap_epoch(), 0u);
  Map(4999, 1, 1);
  EXPECT_EQ(map_.Find(At(4999)).unmap_epoch(), 17u);
  EXPECT_EQ(map_.Find(At(4999)).access().any(), AccessFlags::kNone);
  EXPECT_EQ(old->first_unmap_epoch(), 0u);
  map_.RemoveReservation(old);
  map_.AddReservation(kBase, kGranule, nullptr);
  EXPECT_EQ(map_.ReservationOf(kBase)->first_unmap_epoch(), 17u);
  map_.AddReservation(At(5000), kGranule, nullptr);
  EXPECT_EQ(map_.ReservationOf(At(5000))->first_unmap_epoch(), 0u);
}

}  // namespace
}  // namespace firn::cpu_testing

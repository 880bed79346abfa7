// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/slab_placement.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/placement/extent_matchers.h"

namespace firn::testing {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGranule = 2048 * kKiB;
constexpr uint64_t kQuarter = kGranule / 4;
// 7 of them in 2 granules, the fourth across the boundary.
constexpr uint64_t kAwkward = 576 * kKiB;

TEST(SlabPlacementTest, FillsTheLowestSlotOfTheLowestSlabFirst) {
  SlabPlacement placement(kGranule);
  placement.Give({0, 2 * kGranule}, 1);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_THAT(placement.Take(kQuarter, 512),
                IsExtent(i * kQuarter, kQuarter));
  }
  placement.Free({4 * kQuarter - kQuarter, kQuarter});
  placement.Free({kQuarter, kQuarter});
  EXPECT_THAT(placement.Take(kQuarter, 512), IsExtent(kQuarter, kQuarter));
  EXPECT_THAT(placement.Take(kQuarter, 512), IsExtent(3 * kQuarter, kQuarter));
  EXPECT_THAT(placement.Take(kQuarter, 512), IsExtent(5 * kQuarter, kQuarter));
}

TEST(SlabPlacementTest, AnEmptySlabServesAnyClass) {
  SlabPlacement placement(kGranule);
  placement.Give({0, kGranule}, 1);
  ASSERT_THAT(placement.Take(1, 512), IsExtent(0, 512));
  EXPECT_THAT(placement.Take(1024, 512), IsNoExtent());
  placement.Free({0, 512});
  EXPECT_THAT(placement.Take(8193, 512), IsExtent(0, 9216));
  placement.Free({0, 9216});
  EXPECT_THAT(placement.Take(kGranule, 512), IsExtent(0, kGranule));
}

TEST(SlabPlacementTest, AboveHalfAGranuleBlocksGetRunsOfGranules) {
  SlabPlacement placement(kGranule);
  placement.Give({kGranule, kGranule}, 1);
  placement.Give({3 * kGranule, 3 * kGranule}, 1);
  EXPECT_THAT(placement.Take(kGranule + 1, 512),
              IsExtent(3 * kGranule, 2 * kGranule));
  EXPECT_THAT(placement.Take(kGranule / 2 + 1, 512),
              IsExtent(kGranule, kGranule));
  EXPECT_THAT(placement.Take(kGranule / 2, 512),
              IsExtent(5 * kGranule, kGranule / 2));
}

TEST(SlabPlacementTest, AnAlignedBlockGetsAClassWhoseSlotsAllAre) {
  SlabPlacement placement(kGranule);
  placement.Give({0, 8 * kGranule}, 1);
  EXPECT_THAT(placement.Take(1, 4096), IsExtent(0, 4096));
  // 9 KiB is no multiple of 2 KiB, 10 KiB is.
  EXPECT_THAT(placement.Take(8193, 2048), IsExtent(kGranule, 10 * kKiB));
  EXPECT_THAT(placement.Take(1, kGranule / 2),
              IsExtent(2 * kGranule, kGranule / 2));
  EXPECT_THAT(placement.Take(1, kGranule), IsExtent(3 * kGranule, kGranule));
  EXPECT_THAT(placement.Take(1, 4 * kGranule),
              IsExtent(4 * kGranule, kGranule));
}

TEST(SlabPlacementTest, GrowsByASlabOrARun) {
  const SlabPlacement placement(kGranule);
  EXPECT_EQ(placement.GrowthFor(1, 512).bytes, kGranule);
  EXPECT_EQ(placement.GrowthFor(kAwkward, 512).bytes, 2 * kGranule);
  EXPECT_EQ(placement.GrowthFor(kAwkward, 512).alignment_bytes, kGranule);
  EXPECT_EQ(placement.GrowthFor(kGranule + 1, 512).bytes, 2 * kGranule);
  EXPECT_EQ(placement.GrowthFor(1, 4 * kGranule).alignment_bytes, 4 * kGranule);
}

TEST(SlabPlacementTest, SlotsThatTouchAWithdrawnGranuleAreDead) {
  SlabPlacement placement(kGranule);
  placement.Give({0, 2 * kGranule}, 1);
  ASSERT_THAT(placement.Take(kAwkward, 512), IsExtent(0, kAwkward));
  placement.Withdraw({kGranule, kGranule});
  EXPECT_THAT(placement.Take(kAwkward, 512), IsExtent(kAwkward, kAwkward));
  EXPECT_THAT(placement.Take(kAwkward, 512), IsExtent(2 * kAwkward, kAwkward));
  EXPECT_THAT(placement.Take(kAwkward, 512), IsNoExtent());
}

TEST(SlabPlacementTest, ALiveBlockInAWithdrawnGranuleIsNotFreeAfterwards) {
  SlabPlacement placement(kGranule);
  placement.Give({0, 2 * kGranule}, 1);
  for (uint64_t i = 0; i < 7; ++i) {
    ASSERT_THAT(placement.Take(kAwkward, 512),
                IsExtent(i * kAwkward, kAwkward));
  }
  placement.Withdraw({0, kGranule});
  placement.Free({3 * kAwkward, kAwkward});  // lies in both
  placement.Free({0, kAwkward});
  EXPECT_THAT(placement.Take(kAwkward, 512), IsNoExtent());
  placement.Free({5 * kAwkward, kAwkward});
  EXPECT_THAT(placement.Take(kAwkward, 512), IsExtent(5 * kAwkward, kAwkward));
}

TEST(SlabPlacementTest, WhatASlabHasLeftIsFreeWithItsLastBlock) {
  SlabPlacement placement(kGranule);
  placement.Give({0, 2 * kGranule}, 1);
  ASSERT_THAT(placement.Take(kAwkward, 512), IsExtent(0, kAwkward));
  placement.Withdraw({0, kGranule});
  EXPECT_THAT(placement.Take(1, 512), IsNoExtent());
  placement.Free({0, kAwkward});
  EXPECT_THAT(placement.Take(kGranule, 512), IsExtent(kGranule, kGranule));
  EXPECT_THAT(placement.Take(1, 512), IsNoExtent());
}

TEST(SlabPlacementTest, ALostGranuleThatIsGivenAgainIsNotTheOldSlabs) {
  SlabPlacement placement(kGranule);
  placement.Give({0, 2 * kGranule}, 1);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_THAT(placement.Take(kAwkward, 512),
                IsExtent(i * kAwkward, kAwkward));
  }
  for (uint64_t i = 0; i < 4; ++i) placement.Free({i * kAwkward, kAwkward});
  placement.Withdraw({0, kGranule});
  placement.Give({0, kGranule}, 1);
  // A slab of another class lies there when the old one goes.
  ASSERT_THAT(placement.Take(kQuarter, 512), IsExtent(0, kQuarter));
  placement.Free({4 * kAwkward, kAwkward});
  EXPECT_THAT(placement.Take(kQuarter, 512), IsExtent(kQuarter, kQuarter));
  EXPECT_THAT(placement.Take(kGranule, 512), IsExtent(kGranule, kGranule));
  placement.Free({0, kQuarter});
  placement.Free({kQuarter, kQuarter});
  EXPECT_THAT(placement.Take(kGranule, 512), IsExtent(0, kGranule));
}

}  // namespace
}  // namespace firn::testing

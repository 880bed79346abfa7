// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/buddy_placement.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/placement/extent_matchers.h"

namespace firn::testing {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGranule = 64 * kKiB;

TEST(BuddyPlacementTest, ExtentsArePowersOfTwoAtMultiplesOfTheirSizes) {
  BuddyPlacement placement(kGranule);
  placement.Give({0, kGranule}, 1);
  ASSERT_THAT(placement.Take(1, 512), IsExtent(0, 512));
  EXPECT_THAT(placement.Take(513, 512), IsExtent(1024, 1024));
  EXPECT_THAT(placement.Take(2049, 512), IsExtent(4096, 4096));
}

TEST(BuddyPlacementTest, RunsGivenApartJoinAsBuddies) {
  BuddyPlacement placement(kGranule);
  placement.Give({3 * kGranule, kGranule}, 1);
  placement.Give({kGranule, 2 * kGranule}, 1);
  // Three granules, of which no two are buddies but the last.
  EXPECT_THAT(placement.Take(4 * kGranule, 512), IsNoExtent());
  placement.Give({0, kGranule}, 1);
  EXPECT_THAT(placement.Take(4 * kGranule, 512), IsExtent(0, 4 * kGranule));
}

TEST(BuddyPlacementTest, ABlockAboveAGranuleNeedsAnAlignedRun) {
  BuddyPlacement placement(kGranule);
  placement.Give({kGranule, 2 * kGranule}, 1);
  EXPECT_THAT(placement.Take(kGranule + 1, 512), IsNoExtent());
  const Placement::Growth growth = placement.GrowthFor(kGranule + 1, 512);
  EXPECT_EQ(growth.bytes, 2 * kGranule);
  EXPECT_EQ(growth.alignment_bytes, 2 * kGranule);
  placement.Give({4 * kGranule, 2 * kGranule}, kGranule + 1);
  EXPECT_THAT(placement.Take(kGranule + 1, 512),
              IsExtent(4 * kGranule, 2 * kGranule));
}

TEST(BuddyPlacementTest, ABlockAlignedToMoreThanItsSizeLeavesTheRestFree) {
  BuddyPlacement placement(kGranule);
  placement.Give({0, kGranule}, 1);
  ASSERT_THAT(placement.Take(512, 512), IsExtent(0, 512));
  ASSERT_THAT(placement.Take(512, 8192), IsExtent(8192, 512));
  EXPECT_THAT(placement.Take(512, 512), IsExtent(512, 512));
  EXPECT_THAT(placement.Take(4096, 512), IsExtent(4096, 4096));
  EXPECT_THAT(placement.Take(4096, 512), IsExtent(12288, 4096));
}

TEST(BuddyPlacementTest, GrowsByNoMoreThanTheBlockForAnyAlignment) {
  BuddyPlacement placement(kGranule);
  const Placement::Growth growth = placement.GrowthFor(1, 8 * kGranule);
  EXPECT_EQ(growth.bytes, kGranule);
  EXPECT_EQ(growth.alignment_bytes, 8 * kGranule);
  // Hidden behind a lower granule of the same order.
  placement.Give({5 * kGranule, kGranule}, 1);
  placement.Give({8 * kGranule, kGranule}, 1);
  EXPECT_THAT(placement.Take(1, 8 * kGranule), IsExtent(8 * kGranule, 512));
}

TEST(BuddyPlacementTest, WithdrawsGranulesOutOfLargerBlocks) {
  BuddyPlacement placement(kGranule);
  placement.Give({0, 8 * kGranule}, 1);
  placement.Withdraw({2 * kGranule, kGranule});
  EXPECT_THAT(placement.Take(8 * kGranule, 512), IsNoExtent());
  EXPECT_THAT(placement.Take(kGranule, 512), IsExtent(3 * kGranule, kGranule));
  EXPECT_THAT(placement.Take(2 * kGranule, 512), IsExtent(0, 2 * kGranule));
  EXPECT_THAT(placement.Take(4 * kGranule, 512),
              IsExtent(4 * kGranule, 4 * kGranule));
}

TEST(BuddyPlacementTest, WhatIsFreedInAWithdrawnGranuleJoinsNothing) {
  BuddyPlacement placement(kGranule);
  placement.Give({0, 2 * kGranule}, 1);
  ASSERT_THAT(placement.Take(512, 512), IsExtent(0, 512));
  placement.Withdraw({0, kGranule});
  placement.Free({0, 512});
  EXPECT_THAT(placement.Take(kGranule, 512), IsExtent(kGranule, kGranule));
  EXPECT_THAT(placement.Take(1, 512), IsNoExtent());
  placement.Free({kGranule, kGranule});
  placement.Give({0, kGranule}, 1);
  EXPECT_THAT(placement.Take(2 * kGranule, 512), IsExtent(0, 2 * kGranule));
}

TEST(BuddyPlacementTest, ABlockGivesBackWhatWasNotWithdrawnOfIt) {
  BuddyPlacement placement(kGranule);
  placement.Give({0, 4 * kGranule}, 1);
  ASSERT_THAT(placement.Take(4 * kGranule, 512), IsExtent(0, 4 * kGranule));
  placement.Withdraw({kGranule, kGranule});
  placement.Free({0, 4 * kGranule});
  EXPECT_THAT(placement.Take(kGranule, 512), IsExtent(0, kGranule));
  EXPECT_THAT(placement.Take(2 * kGranule, 512),
              IsExtent(2 * kGranule, 2 * kGranule));
  EXPECT_THAT(placement.Take(1, 512), IsNoExtent());
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/range_placement.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/placement/extent_matchers.h"

namespace firn::testing {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGranule = 64 * kKiB;

TEST(FreeListPlacementTest, TakesTheLowestRangeThatIsLongEnough) {
  FreeListPlacement placement(kGranule);
  placement.Give({0, kGranule}, 1);
  ASSERT_THAT(placement.Take(4096, 512), IsExtent(0, 4096));
  ASSERT_THAT(placement.Take(1, 512), IsExtent(4096, 512));
  ASSERT_THAT(placement.Take(1024, 512), IsExtent(4608, 1024));
  ASSERT_THAT(placement.Take(1, 512), IsExtent(5632, 512));
  placement.Free({4608, 1024});
  placement.Free({0, 4096});
  EXPECT_THAT(placement.Take(1000, 512), IsExtent(0, 1024));
}

TEST(BestFitPlacementTest, TakesTheShortestRangeThatIsLongEnough) {
  BestFitPlacement placement(kGranule);
  placement.Give({0, kGranule}, 1);
  ASSERT_THAT(placement.Take(4096, 512), IsExtent(0, 4096));
  ASSERT_THAT(placement.Take(1, 512), IsExtent(4096, 512));
  ASSERT_THAT(placement.Take(1024, 512), IsExtent(4608, 1024));
  ASSERT_THAT(placement.Take(1, 512), IsExtent(5632, 512));
  placement.Free({4608, 1024});
  placement.Free({0, 4096});
  EXPECT_THAT(placement.Take(1000, 512), IsExtent(4608, 1024));
}

template <typename Structure>
class RangePlacementTest : public ::testing::Test {
 protected:
  Structure placement_{kGranule};
};

using Structures = ::testing::Types<FreeListPlacement, BestFitPlacement>;
TYPED_TEST_SUITE(RangePlacementTest, Structures);

TYPED_TEST(RangePlacementTest, BlocksMaySpanRunsThatWereGivenApart) {
  this->placement_.Give({kGranule, kGranule}, 1);
  this->placement_.Give({0, kGranule}, 1);
  EXPECT_THAT(this->placement_.Take(2 * kGranule, 512),
              IsExtent(0, 2 * kGranule));
  EXPECT_THAT(this->placement_.Take(1, 512), IsNoExtent());
}

TYPED_TEST(RangePlacementTest, WhatLiesBeforeAnAlignedStartStaysFree) {
  this->placement_.Give({0, kGranule}, 1);
  ASSERT_THAT(this->placement_.Take(512, 512), IsExtent(0, 512));
  EXPECT_THAT(this->placement_.Take(4096, 4096), IsExtent(4096, 4096));
  EXPECT_THAT(this->placement_.Take(3584, 512), IsExtent(512, 3584));
}

TYPED_TEST(RangePlacementTest, FindsRoomAtAnAlignedStartBehindARangeWithout) {
  this->placement_.Give({0, 2 * kGranule}, 1);
  ASSERT_THAT(this->placement_.Take(512, 512), IsExtent(0, 512));
  ASSERT_THAT(this->placement_.Take(4096, 512), IsExtent(512, 4096));
  ASSERT_THAT(this->placement_.Take(512, 512), IsExtent(4608, 512));
  this->placement_.Free({512, 4096});
  EXPECT_THAT(this->placement_.Take(4096, 4096), IsExtent(8192, 4096));
}

TYPED_TEST(RangePlacementTest, GrowsByNoMoreThanTheBlockForAnyAlignment) {
  // A free range, odd at its start, joins with what is given.
  this->placement_.Give({2 * kGranule, 2 * kGranule}, 1);
  ASSERT_THAT(this->placement_.Take(2 * kGranule - 512, 512),
              IsExtent(2 * kGranule, 2 * kGranule - 512));
  const Placement::Growth growth =
      this->placement_.GrowthFor(kGranule, 4 * kGranule);
  EXPECT_EQ(growth.bytes, kGranule);
  EXPECT_EQ(growth.alignment_bytes, 4 * kGranule);
  this->placement_.Give({4 * kGranule, kGranule}, kGranule);
  EXPECT_THAT(this->placement_.Take(kGranule, 4 * kGranule),
              IsExtent(4 * kGranule, kGranule));
}

TYPED_TEST(RangePlacementTest, ABlockGivesBackWhatWasNotWithdrawnOfIt) {
  this->placement_.Give({0, 4 * kGranule}, 1);
  ASSERT_THAT(this->placement_.Take(3 * kGranule, 512),
              IsExtent(0, 3 * kGranule));
  this->placement_.Withdraw({kGranule, kGranule});
  this->placement_.Free({0, 3 * kGranule});
  EXPECT_THAT(this->placement_.Take(2 * kGranule + 1, 512), IsNoExtent());
  EXPECT_THAT(this->placement_.Take(2 * kGranule, 512),
              IsExtent(2 * kGranule, 2 * kGranule));
  EXPECT_THAT(this->placement_.Take(kGranule, 512), IsExtent(0, kGranule));
  EXPECT_THAT(this->placement_.Take(1, 512), IsNoExtent());
}

TYPED_TEST(RangePlacementTest, AGranuleGivenAgainIsWholeAndFree) {
  this->placement_.Give({0, 2 * kGranule}, 1);
  ASSERT_THAT(this->placement_.Take(512, 512), IsExtent(0, 512));
  this->placement_.Withdraw({0, kGranule});
  EXPECT_THAT(this->placement_.Take(kGranule + 1, 512), IsNoExtent());
  this->placement_.Free({0, 512});
  EXPECT_THAT(this->placement_.Take(kGranule + 1, 512), IsNoExtent());
  this->placement_.Give({0, kGranule}, 1);
  EXPECT_THAT(this->placement_.Take(2 * kGranule, 512),
              IsExtent(0, 2 * kGranule));
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/tiered_placement.h"

#include <cstdint>

#include "firn/core/placement_kind.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/placement/extent_matchers.h"

namespace firn::testing {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGranule = 2048 * kKiB;
constexpr uint64_t kSmall = kGranule / 2;
constexpr uint64_t kLarge = 4 * kGranule;

TierBounds Bounds(TierBounds::Small small = TierBounds::Small::kSlab) {
  TierBounds bounds;
  bounds.small_bytes = kSmall;
  bounds.large_bytes = kLarge;
  bounds.small = small;
  return bounds;
}

TEST(TieredPlacementTest, AGranuleIsOfTheTierForWhoseSizesItWasGiven) {
  TieredPlacement placement(Bounds(), kGranule);
  placement.Give({0, kGranule}, kSmall - 1);
  EXPECT_THAT(placement.Take(kSmall, 512), IsNoExtent());
  placement.Give({8 * kGranule, 5 * kGranule}, kLarge + 1);
  EXPECT_THAT(placement.Take(kLarge, 512), IsNoExtent());
  placement.Give({kGranule, kGranule}, kSmall);
  EXPECT_THAT(placement.Take(kSmall, 512), IsExtent(kGranule, kSmall));
  EXPECT_THAT(placement.Take(9 * kKiB, 512), IsExtent(0, 9 * kKiB));
  EXPECT_THAT(placement.Take(kLarge + 1, 512),
              IsExtent(8 * kGranule, 5 * kGranule));
}

TEST(TieredPlacementTest, SmallBlocksHaveClassesOrExactSizes) {
  TieredPlacement slabs(Bounds(), kGranule);
  slabs.Give({0, kGranule}, 1);
  EXPECT_THAT(slabs.Take(8 * kKiB + 1, 512), IsExtent(0, 9 * kKiB));
  TieredPlacement exact(Bounds(TierBounds::Small::kSizeHash), kGranule);
  exact.Give({0, kGranule}, 1);
  EXPECT_THAT(exact.Take(8 * kKiB + 1, 512), IsExtent(0, 8 * kKiB + 512));
}

TEST(TieredPlacementTest, GrowsAsTheTierOfTheSizeDoes) {
  const TieredPlacement placement(Bounds(), kGranule);
  EXPECT_EQ(placement.GrowthFor(576 * kKiB, 512).bytes, 2 * kGranule);
  EXPECT_EQ(placement.GrowthFor(3 * kGranule, 512).bytes, 4 * kGranule);
  EXPECT_EQ(placement.GrowthFor(3 * kGranule, 512).alignment_bytes,
            4 * kGranule);
  EXPECT_EQ(placement.GrowthFor(kLarge + 1, 512).bytes, 5 * kGranule);
  EXPECT_EQ(placement.GrowthFor(kLarge + 1, 512).alignment_bytes, kGranule);
}

TEST(TieredPlacementTest, LargeBlocksGetTheShortestRunThatIsLongEnough) {
  TieredPlacement placement(Bounds(), kGranule);
  placement.Give({0, 7 * kGranule}, 5 * kGranule);
  placement.Give({8 * kGranule, 5 * kGranule}, 5 * kGranule);
  EXPECT_THAT(placement.Take(kLarge + 1, 512),
              IsExtent(8 * kGranule, 5 * kGranule));
  EXPECT_THAT(placement.Take(kLarge + 1, 512), IsExtent(0, 5 * kGranule));
}

TEST(TieredPlacementTest, AFreedBlockIsItsTiersEvenOfAWithdrawnGranule) {
  TieredPlacement placement(Bounds(), kGranule);
  placement.Give({0, 4 * kGranule}, 2 * kGranule);
  ASSERT_THAT(placement.Take(2 * kGranule, 512), IsExtent(0, 2 * kGranule));
  placement.Withdraw({0, kGranule});
  placement.Free({0, 2 * kGranule});
  EXPECT_THAT(placement.Take(kGranule, 512), IsExtent(kGranule, kGranule));
  EXPECT_THAT(placement.Take(2 * kGranule, 512),
              IsExtent(2 * kGranule, 2 * kGranule));
  EXPECT_THAT(placement.Take(kGranule, 512), IsNoExtent());
}

TEST(TieredPlacementTest, AWithdrawnGranuleMayBeGivenToAnotherTier) {
  TieredPlacement placement(Bounds(), kGranule);
  placement.Give({0, 2 * kGranule}, 1);
  placement.Give({2 * kGranule, 2 * kGranule}, kGranule);
  ASSERT_THAT(placement.Take(1, 512), IsExtent(0, 512));
  placement.Withdraw({kGranule, 2 * kGranule});  // of two tiers
  EXPECT_THAT(placement.Take(1024, 512), IsNoExtent());
  placement.Give({kGranule, kGranule}, kGranule);
  placement.Give({2 * kGranule, kGranule}, 1);
  EXPECT_THAT(placement.Take(1024, 512), IsExtent(2 * kGranule, 1024));
  EXPECT_THAT(placement.Take(kGranule, 512), IsExtent(kGranule, kGranule));
}

}  // namespace
}  // namespace firn::testing

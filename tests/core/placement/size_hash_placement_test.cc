// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/size_hash_placement.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/placement/extent_matchers.h"

namespace firn::testing {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGranule = 64 * kKiB;

TEST(SizeHashPlacementTest, TakesTheBlockOfExactlyThatSizeThatWasFreedLast) {
  SizeHashPlacement placement(kGranule);
  placement.Give({0, kGranule}, 1);
  ASSERT_THAT(placement.Take(1024, 512), IsExtent(0, 1024));
  ASSERT_THAT(placement.Take(1024, 512), IsExtent(1024, 1024));
  ASSERT_THAT(placement.Take(1024, 512), IsExtent(2048, 1024));
  placement.Free({0, 1024});
  placement.Free({1024, 1024});
  // Unjoined: half of it is no reason to cut a binned block.
  EXPECT_THAT(placement.Take(512, 512), IsExtent(3072, 512));
  EXPECT_THAT(placement.Take(1024, 512), IsExtent(1024, 1024));
  EXPECT_THAT(placement.Take(1024, 512), IsExtent(0, 1024));
}

TEST(SizeHashPlacementTest, JoinsBinnedBlocksWhenNothingElseFits) {
  SizeHashPlacement placement(kGranule);
  placement.Give({0, kGranule}, 1);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_THAT(placement.Take(kGranule / 4, 512),
                IsExtent(i * kGranule / 4, kGranule / 4));
  }
  placement.Free({0, kGranule / 4});
  placement.Free({kGranule / 2, kGranule / 4});
  EXPECT_THAT(placement.Take(kGranule / 2, 512), IsNoExtent());
  placement.Free({kGranule / 4, kGranule / 4});
  EXPECT_THAT(placement.Take(kGranule / 2, 512), IsExtent(0, kGranule / 2));
}

TEST(SizeHashPlacementTest, ABinnedBlockIsTakenOnlyIfItIsAligned) {
  SizeHashPlacement placement(kGranule);
  placement.Give({0, kGranule}, 1);
  ASSERT_THAT(placement.Take(512, 512), IsExtent(0, 512));
  ASSERT_THAT(placement.Take(1024, 512), IsExtent(512, 1024));
  placement.Free({512, 1024});
  EXPECT_THAT(placement.Take(1024, 1024), IsExtent(2048, 1024));
  EXPECT_THAT(placement.Take(1024, 512), IsExtent(512, 1024));
}

TEST(SizeHashPlacementTest, WithdrawsBinnedBlocksToo) {
  SizeHashPlacement placement(kGranule);
  placement.Give({0, 2 * kGranule}, 1);
  ASSERT_THAT(placement.Take(2 * kGranule - 1024, 512),
              IsExtent(0, 2 * kGranule - 1024));
  ASSERT_THAT(placement.Take(1024, 512), IsExtent(2 * kGranule - 1024, 1024));
  placement.Free({2 * kGranule - 1024, 1024});
  placement.Withdraw({kGranule, kGranule});
  EXPECT_THAT(placement.Take(1024, 512), IsNoExtent());
  // Of the block that lies partly there the rest is free.
  placement.Free({0, 2 * kGranule - 1024});
  EXPECT_THAT(placement.Take(kGranule + 512, 512), IsNoExtent());
  EXPECT_THAT(placement.Take(kGranule, 512), IsExtent(0, kGranule));
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/fragmentation.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "firn/compaction/free_space.h"
#include "firn/compaction/lower_bounds.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/snapshot.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/snapshot_builder.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

// Holes of these quanta beside free granules.
FreeSpace Space(uint32_t quanta_per_granule, const std::vector<uint32_t>& holes,
                uint64_t free_granules) {
  FreeSpace space;
  space.quanta_per_granule = quanta_per_granule;
  space.holes.assign(quanta_per_granule, 0);
  for (const uint32_t length : holes) ++space.holes[length];
  space.free_granules = free_granules;
  return space;
}

FreeSpace RandomSpace(uint64_t seed) {
  SmallRandom random(seed);
  std::vector<uint32_t> holes(random.Below(12));
  const uint32_t longest = random.Between(1, 63);
  for (uint32_t& hole : holes) hole = random.Between(1, longest);
  return Space(64, holes, random.OneIn(2) ? 0 : random.Below(4));
}

TEST(MemoryUseTest, FiguresAreThoseOfTheirDefinitions) {
  MemoryUse use;
  use.requested_bytes = 600;
  use.allocated_bytes = 800;
  use.used_bytes = 2000;
  EXPECT_DOUBLE_EQ(use.InternalFragmentation(), 0.25);
  EXPECT_DOUBLE_EQ(use.Utilization(), 0.3);
  EXPECT_EQ(use.WasteBytes(), 1400u);
}

TEST(MemoryUseTest, NothingUsedWastesNothing) {
  const MemoryUse use;
  EXPECT_EQ(use.InternalFragmentation(), 0);
  EXPECT_EQ(use.Utilization(), 1);
  EXPECT_EQ(use.WasteBytes(), 0u);
}

TEST(MemoryUseTest, FiguresReadAtDifferentTimesStayInRange) {
  MemoryUse use;
  use.requested_bytes = 10;
  use.allocated_bytes = 9;
  use.used_bytes = 8;
  EXPECT_EQ(use.InternalFragmentation(), 0);
  EXPECT_EQ(use.Utilization(), 1);
  EXPECT_EQ(use.WasteBytes(), 0u);
}

TEST(FragmentationTest, ExternalFragmentationIsThatOfTheHoles) {
  EXPECT_EQ(ExternalFragmentation(Space(16, {}, 0)), 0);
  EXPECT_EQ(ExternalFragmentation(Space(16, {}, 9)), 0);
  EXPECT_EQ(ExternalFragmentation(Space(16, {5}, 9)), 0);
  EXPECT_DOUBLE_EQ(ExternalFragmentation(Space(16, {5, 5}, 9)), 0.5);
  EXPECT_DOUBLE_EQ(ExternalFragmentation(Space(16, {1, 2, 12, 5}, 0)), 0.4);
}

// 16 + 8 + 4 + 4 quanta free.
TEST(FragmentationTest, SharesAreThoseOfTheirDefinitions) {
  const FreeSpace space = Space(16, {8, 4, 4}, 1);
  EXPECT_EQ(UnusableShare(space, 4), 0);
  EXPECT_DOUBLE_EQ(UnusableShare(space, 5), 8.0 / 32);
  EXPECT_DOUBLE_EQ(UnusableShare(space, 9), 16.0 / 32);
  EXPECT_DOUBLE_EQ(UnusableShare(space, 16), 16.0 / 32);
  EXPECT_DOUBLE_EQ(UnusableShare(space, 20), 8.0 / 32 - 8.0 / 32);
  EXPECT_DOUBLE_EQ(UnusableShare(space, 24), 8.0 / 32);
  EXPECT_DOUBLE_EQ(UnusableShare(space, 25), 1);
  // Three in the granule, one in the hole of 8.
  EXPECT_DOUBLE_EQ(ExtfragShare(space, 5), 1 - 20.0 / 32);
  EXPECT_EQ(ExtfragShare(space, 4), 0);
  EXPECT_DOUBLE_EQ(ExtfragShare(space, 8), 8.0 / 32);
  EXPECT_DOUBLE_EQ(ExtfragShare(space, 9), 1 - 9.0 / 32);
  EXPECT_DOUBLE_EQ(ExtfragShare(space, 25), 1);
}

TEST(FragmentationTest, WithNothingFreeTheSharesAreThoseOfLinux) {
  const FreeSpace space = Space(16, {}, 0);
  EXPECT_EQ(UnusableShare(space, 1), 1);
  EXPECT_EQ(ExtfragShare(space, 1), 0);
  EXPECT_EQ(FragmentationIndex(space, 1), 0);
}

// Where all lengths are powers of two, as in a buddy system.
TEST(FragmentationTest, ForPowersOfTwoBothSharesAreTheSame) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SmallRandom random(seed);
    std::vector<uint32_t> holes(random.Between(1, 10));
    for (uint32_t& hole : holes) hole = 1u << random.Below(6);
    const FreeSpace space = Space(64, holes, random.Below(3));
    for (uint64_t quanta = 1; quanta <= 64; quanta *= 2) {
      ASSERT_DOUBLE_EQ(UnusableShare(space, quanta),
                       ExtfragShare(space, quanta))
          << seed << ": " << quanta;
    }
  }
}

TEST(FragmentationTest, SharesStayInRangeAndGrowWithTheSize) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const FreeSpace space = RandomSpace(seed);
    double last_unusable = 0;
    for (uint64_t quanta = 1; quanta <= 64; ++quanta) {
      const double unusable = UnusableShare(space, quanta);
      const double extfrag = ExtfragShare(space, quanta);
      ASSERT_GE(unusable, last_unusable) << seed << ": " << quanta;
      ASSERT_LE(unusable, 1);
      ASSERT_GE(extfrag, space.FreeQuanta() == 0 ? 0 : unusable);
      ASSERT_LE(extfrag, 1);
      last_unusable = unusable;
      for (uint64_t multiple = 2 * quanta; multiple <= 64; multiple += quanta) {
        ASSERT_GE(ExtfragShare(space, multiple), extfrag)
            << seed << ": " << quanta << ", " << multiple;
      }
    }
    ASSERT_EQ(ExtfragShare(space, 1), 0);
  }
}

TEST(FragmentationIndexTest, ThereIsNoneForARequestThatFits) {
  EXPECT_EQ(FragmentationIndex(Space(16, {3}, 0), 3), std::nullopt);
  EXPECT_EQ(FragmentationIndex(Space(16, {}, 1), 3), std::nullopt);
  EXPECT_EQ(FragmentationIndex(Space(16, {3}, 1), 19), std::nullopt);
  EXPECT_NE(FragmentationIndex(Space(16, {3}, 1), 20), std::nullopt);
}

// Linux: 1000 - (1000 + 1000 F / R) / B, here with four blocks of 4 for 8.
TEST(FragmentationIndexTest, ForPowersOfTwoItIsThatOfLinux) {
  EXPECT_DOUBLE_EQ(*FragmentationIndex(Space(16, {4, 4, 4, 4}, 0), 8),
                   1 - (1 + 16.0 / 8) / 4);
  EXPECT_DOUBLE_EQ(*FragmentationIndex(Space(16, {1, 2, 4}, 0), 16),
                   1 - (1 + 7.0 / 16) / 3);
}

TEST(FragmentationIndexTest, AHoleCountsAsItsBlocksAndASizeAsThatOfItsBlock) {
  // 7 is 4 + 2 + 1, and 12 is 8 + 4; 13 needs a block of 16.
  EXPECT_DOUBLE_EQ(*FragmentationIndex(Space(16, {7, 12}, 0), 13),
                   1 - (1 + 19.0 / 16) / 5);
}

TEST(FragmentationIndexTest, ManyHolesMeanFragmentationAndOneALackOfMemory) {
  EXPECT_EQ(FragmentationIndex(Space(64, {1}, 0), 64), 0);
  EXPECT_EQ(FragmentationIndex(Space(64, {32}, 0), 64), 0);
  EXPECT_GT(
      *FragmentationIndex(Space(64, std::vector<uint32_t>(1000, 1), 0), 64),
      0.97);
  // Also where they are nearly long enough.
  EXPECT_GT(
      *FragmentationIndex(Space(64, std::vector<uint32_t>(1000, 63), 0), 64),
      0.8);
}

TEST(FragmentationIndexTest, StaysInRangeAndGrowsWithTheSize) {
  uint32_t above_half = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const FreeSpace space = RandomSpace(seed);
    double last = 0;
    for (uint64_t quanta = 1; quanta <= 64; ++quanta) {
      const std::optional<double> index = FragmentationIndex(space, quanta);
      ASSERT_EQ(index.has_value(), space.ServableRequests(quanta) == 0);
      if (!index.has_value()) continue;
      ASSERT_GE(*index, last) << seed << ": " << quanta;
      ASSERT_LT(*index, 1) << seed << ": " << quanta;
      last = *index;
    }
    if (last > 0.5) ++above_half;
  }
  EXPECT_GT(above_half, 100u);
}

TEST(CompactionPotentialTest, IsWhatIsAboveTheGreatestBound) {
  SnapshotBuilder builder(64);
  builder.Granule({{Extent(0, 8)}})
      .Granule({{Extent(0, 8)}})
      .Granule({{Extent(8, 16)}})
      .Granule({{Extent(16, 24)}})
      .FullGranules(3);
  const Snapshot snapshot = builder.Build();
  const LowerBounds bounds = ComputeLowerBounds(snapshot);
  ASSERT_EQ(bounds.max(), 5u);
  EXPECT_EQ(CompactionPotential(snapshot, bounds), 2u);
  const Plan plan = MakePlan(snapshot, PlanLimits());
  EXPECT_EQ(plan.emptied_granules, 2u);
  EXPECT_EQ(PlannedShareOfPotential(plan, 2), 1);
}

TEST(CompactionPotentialTest, APlanOfHalfOfItHasHalfOfIt) {
  Plan plan;
  plan.emptied_granules = 3;
  EXPECT_DOUBLE_EQ(PlannedShareOfPotential(plan, 6), 0.5);
  EXPECT_EQ(PlannedShareOfPotential(Plan(), 6), 0);
  EXPECT_EQ(PlannedShareOfPotential(Plan(), 0), 1);
}

TEST(CompactionPotentialTest, NothingLiveHasNone) {
  const Snapshot snapshot = SnapshotBuilder(64).Build();
  EXPECT_EQ(CompactionPotential(snapshot, ComputeLowerBounds(snapshot)), 0u);
}

TEST(ColourSkewTest, IsTheFullestStripeOverTheMean) {
  EXPECT_EQ(ColourSkew({}), 1);
  EXPECT_EQ(ColourSkew({0, 0, 0}), 1);
  EXPECT_EQ(ColourSkew({7}), 1);
  EXPECT_EQ(ColourSkew({5, 5, 5, 5}), 1);
  EXPECT_DOUBLE_EQ(ColourSkew({6, 2, 4, 4}), 1.5);
  EXPECT_EQ(ColourSkew({0, 9, 0, 0}), 4);
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// MakeHolePlan: room for one block within a granule.

#include <cstdint>
#include <vector>

#include "firn/compaction/planner.h"
#include "firn/compaction/snapshot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/snapshot_builder.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Plan HolePlan(const SnapshotBuilder& builder, uint32_t quanta,
              uint32_t alignment_quanta = 1) {
  return MakeHolePlan(builder.Build(), quanta, alignment_quanta, PlanLimits());
}

// What is live on each granule after the plan; fails where two overlap.
std::vector<std::vector<bool>> LiveAfter(const Snapshot& snapshot,
                                         const Plan& plan) {
  std::vector<uint32_t> home(snapshot.vgs.size());
  for (uint32_t g = 0; g < snapshot.granules.size(); ++g) {
    for (uint32_t i = 0; i < snapshot.granules[g].vg_count; ++i) {
      home[snapshot.granules[g].first_vg + i] = g;
    }
  }
  for (const PlannedMove& move : plan.moves) {
    EXPECT_EQ(home[move.vg], move.from);
    home[move.vg] = move.to;
  }
  std::vector<std::vector<bool>> live(
      snapshot.granules.size(),
      std::vector<bool>(snapshot.quanta_per_granule, false));
  for (uint32_t vg = 0; vg < home.size(); ++vg) {
    for (const OffsetInterval& extent : snapshot.ExtentsOf(snapshot.vgs[vg])) {
      for (uint32_t i = extent.lo; i < extent.hi; ++i) {
        EXPECT_FALSE(live[home[vg]][i]) << "I2: offset " << i;
        live[home[vg]][i] = true;
      }
    }
  }
  return live;
}

bool HasHole(const std::vector<bool>& live, uint32_t quanta,
             uint32_t alignment_quanta) {
  for (uint32_t lo = 0; lo + quanta <= live.size(); lo += alignment_quanta) {
    bool clear = true;
    for (uint32_t i = lo; i < lo + quanta; ++i) clear = clear && !live[i];
    if (clear) return true;
  }
  return false;
}

bool AnyHasHole(const std::vector<std::vector<bool>>& live, uint32_t quanta,
                uint32_t alignment_quanta) {
  for (const std::vector<bool>& granule : live) {
    if (HasHole(granule, quanta, alignment_quanta)) return true;
  }
  return false;
}

TEST(HolePlanTest, WhatIsInTheWayMovesToWhereItsOffsetsAreFree) {
  // The quarters of two granules: the first lacks its first, the second its
  // second. Half a granule fits once the second quarter has moved over.
  const SnapshotBuilder builder =
      SnapshotBuilder(64)
          .Granule({{Extent(16, 32)}, {Extent(32, 48)}, {Extent(48, 64)}})
          .Granule({{Extent(0, 16)}, {Extent(32, 48)}, {Extent(48, 64)}});
  const Plan plan = HolePlan(builder, 32);
  ASSERT_THAT(plan.moves, SizeIs(1));
  EXPECT_EQ(plan.copied_quanta, 16u);
  EXPECT_EQ(plan.emptied_granules, 0u);
  const Snapshot snapshot = builder.Build();
  EXPECT_TRUE(AnyHasHole(LiveAfter(snapshot, plan), 32, 1));
}

TEST(HolePlanTest, NothingMovesForAHoleThatIsThere) {
  EXPECT_THAT(HolePlan(SnapshotBuilder(64)
                           .Granule({{Extent(0, 16)}})
                           .Granule({{Extent(0, 48)}}),
                       40)
                  .moves,
              IsEmpty());
}

TEST(HolePlanTest, NothingMovesWhereTheOffsetsAreTakenEverywhere) {
  EXPECT_THAT(HolePlan(SnapshotBuilder(64)
                           .Granule({{Extent(16, 32)}, {Extent(32, 64)}})
                           .Granule({{Extent(16, 32)}, {Extent(32, 64)}}),
                       32)
                  .moves,
              IsEmpty());
}

TEST(HolePlanTest, NothingMovesThatIsAsLargeAsTheHole) {
  // Two that fit into each other: 40 quanta and 24.
  const SnapshotBuilder builder =
      SnapshotBuilder(64)
          .Granule(
              {{Extent(0, 16), Extent(32, 40), Extent(44, 52), Extent(56, 64)}})
          .Granule({{Extent(16, 32), Extent(40, 44), Extent(52, 56)}});
  EXPECT_THAT(HolePlan(builder, 20).moves, IsEmpty());
  EXPECT_THAT(HolePlan(builder, 24).moves, IsEmpty());
  EXPECT_THAT(HolePlan(builder, 25).moves, SizeIs(1));
  EXPECT_EQ(HolePlan(builder, 25).copied_quanta, 24u);
}

TEST(HolePlanTest, AlignmentAndLimitsAreKept) {
  const SnapshotBuilder builder =
      SnapshotBuilder(64)
          .Granule({{Extent(8, 12)}, {Extent(40, 64)}})
          .Granule({{Extent(0, 8)}, {Extent(24, 64)}});
  const Snapshot snapshot = builder.Build();
  const Plan plan = HolePlan(builder, 32, 32);
  ASSERT_THAT(plan.moves, SizeIs(1));
  EXPECT_TRUE(AnyHasHole(LiveAfter(snapshot, plan), 32, 32));
  PlanLimits limits;
  limits.max_quanta = 3;
  EXPECT_THAT(MakeHolePlan(snapshot, 32, 32, limits).moves, IsEmpty());
  limits = PlanLimits();
  limits.max_moves = 0;
  EXPECT_THAT(MakeHolePlan(snapshot, 32, 32, limits).moves, IsEmpty());
  limits = PlanLimits();
  limits.max_mappings_per_granule = 2;
  EXPECT_THAT(MakeHolePlan(snapshot, 32, 32, limits).moves, IsEmpty());
}

TEST(HolePlanTest, WhatIsPinnedStaysAndWhatIsBesideItMayMove) {
  // Either of the third quarters could move over to make room for half a
  // granule beside the other's gap.
  SnapshotBuilder builder =
      SnapshotBuilder(64)
          .Granule({{Extent(16, 32)}, {Extent(32, 48)}, {Extent(48, 64)}})
          .Granule({{Extent(0, 16)}, {Extent(32, 48)}, {Extent(48, 64)}});
  ASSERT_THAT(HolePlan(builder, 32).moves, SizeIs(1));
  EXPECT_EQ(HolePlan(builder, 32).moves.front().vg, 0u);
  // The same granule, whose gap is still the right one for what the other has
  // at the bottom.
  builder.Pin(0);
  ASSERT_THAT(HolePlan(builder, 32).moves, SizeIs(1));
  EXPECT_EQ(HolePlan(builder, 32).moves.front().vg, 3u);
  builder.Pin(1).Pin(2).Pin(4).Pin(5);
  ASSERT_THAT(HolePlan(builder, 32).moves, SizeIs(1));
  EXPECT_EQ(HolePlan(builder, 32).moves.front().vg, 3u);
  EXPECT_EQ(HolePlan(builder, 32).moves.front().to, 0u);
  EXPECT_THAT(HolePlan(builder.Pin(3), 32).moves, IsEmpty());
}

TEST(HolePlanTest, EveryPlanOpensItsHoleAndBreaksNothing) {
  RandomSnapshotShape shape;
  shape.least_live_percent = 50;
  shape.most_live_percent = 95;
  int opened = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    shape.pinned_percent = seed % 3 == 0 ? 10 : 0;
    const Snapshot snapshot = RandomSnapshot(seed, shape);
    const uint32_t quanta = 8u << (seed % 3);
    const uint32_t alignment_quanta = 1u << (seed % 4);
    const Plan plan =
        MakeHolePlan(snapshot, quanta, alignment_quanta, PlanLimits());
    const auto live = LiveAfter(snapshot, plan);
    if (plan.moves.empty()) continue;
    ++opened;
    EXPECT_TRUE(
        HasHole(live[plan.moves.front().from], quanta, alignment_quanta));
    EXPECT_LT(plan.copied_quanta, quanta);
    for (const PlannedMove& move : plan.moves) {
      EXPECT_EQ(move.from, plan.moves.front().from);
      EXPECT_NE(move.to, move.from);
      EXPECT_FALSE(snapshot.vgs[move.vg].is_pinned);
    }
  }
  EXPECT_GT(opened, 20);
}

}  // namespace
}  // namespace firn::testing

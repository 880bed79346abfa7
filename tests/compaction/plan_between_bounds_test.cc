// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Plans against the bounds, on snapshots of any shape: no bound is above what a
// plan leaves, and no plan leaves more than there was.

#include <algorithm>
#include <cstdint>

#include "firn/compaction/fragmentation.h"
#include "firn/compaction/interval_packing.h"
#include "firn/compaction/lower_bounds.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/snapshot.h"
#include "gtest/gtest.h"
#include "tests/support/exact_colouring.h"
#include "tests/support/snapshot_builder.h"

namespace firn::testing {
namespace {

RandomSnapshotShape ShapeOf(uint64_t seed) {
  RandomSnapshotShape shape;
  shape.most_live_percent = 10 + static_cast<uint32_t>(seed % 9) * 10;
  shape.pinned_percent = seed % 3 == 0 ? 15 : 0;
  if (seed % 2 == 0) {
    shape.quanta_per_granule = 96;  // no power of two
    shape.slots = 12;
  }
  return shape;
}

uint32_t GranulesOf(const Snapshot& snapshot) {
  return static_cast<uint32_t>(snapshot.granules.size()) +
         snapshot.full_granules;
}

void ExpectNoneAbove(const LowerBounds& bounds, uint32_t granules) {
  EXPECT_LE(bounds.by_bytes, granules);
  EXPECT_LE(bounds.by_depth, granules);
  EXPECT_LE(bounds.by_large, granules);
  EXPECT_LE(bounds.by_pins, granules);
  EXPECT_LE(bounds.by_packing, granules);
}

TEST(PlanBetweenBoundsTest, NoBoundIsAboveWhatAPlanLeaves) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    RandomSnapshotShape shape = ShapeOf(seed);
    shape.granules = 24;
    const Snapshot snapshot = RandomSnapshot(seed, shape);
    const LowerBounds bounds = ComputeLowerBounds(snapshot);
    const Plan plan = MakePlan(snapshot, PlanLimits());
    const uint32_t before = GranulesOf(snapshot);
    ASSERT_LE(plan.emptied_granules, before);
    ExpectNoneAbove(bounds, before - plan.emptied_granules);
    EXPECT_GE(bounds.by_packing, bounds.by_bytes);
    EXPECT_GE(bounds.by_packing, bounds.by_large);
    const uint32_t potential = CompactionPotential(snapshot, bounds);
    EXPECT_EQ(potential, before - bounds.max());
    EXPECT_LE(plan.emptied_granules, potential);
    const double share = PlannedShareOfPotential(plan, potential);
    EXPECT_GE(share, 0);
    EXPECT_LE(share, 1);
  }
}

TEST(PlanBetweenBoundsTest, TheExactLeastIsBetweenTheBoundsAndThePlan) {
  uint32_t exact_bounds = 0;
  uint32_t exact_plans = 0;
  constexpr uint32_t kCases = 1200;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE(seed);
    RandomSnapshotShape shape = ShapeOf(seed);
    shape.granules = seed % 40 == 0 ? 4 : 3;
    shape.most_vgs = 2;
    const Snapshot snapshot = RandomSnapshot(seed, shape);
    const uint32_t least = LeastGranules(snapshot);
    const LowerBounds bounds = ComputeLowerBounds(snapshot);
    ExpectNoneAbove(bounds, least);
    EXPECT_GE(SufficientGranules(snapshot), least);
    const uint32_t after = GranulesOf(snapshot) -
                           MakePlan(snapshot, PlanLimits()).emptied_granules;
    ASSERT_GE(after, least);
    if (bounds.max() == least) ++exact_bounds;
    if (after == least) ++exact_plans;
  }
  // Bounds of nothing and plans of nothing would pass the above.
  EXPECT_GT(exact_bounds, kCases * 2 / 3);
  EXPECT_GT(exact_plans, kCases * 2 / 3);
}

}  // namespace
}  // namespace firn::testing

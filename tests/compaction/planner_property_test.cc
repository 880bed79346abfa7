// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What holds for every plan, checked on random snapshots.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "firn/compaction/lower_bounds.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/snapshot.h"
#include "gtest/gtest.h"
#include "tests/compaction/slow_planner.h"
#include "tests/support/exact_colouring.h"
#include "tests/support/small_random.h"
#include "tests/support/snapshot_builder.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

// Each virtual granule's granule after the plan.
std::vector<uint32_t> Homes(const Snapshot& snapshot, const Plan& plan) {
  std::vector<uint32_t> home(snapshot.vgs.size());
  for (uint32_t g = 0; g < snapshot.granules.size(); ++g) {
    const SnapshotGranule& granule = snapshot.granules[g];
    for (uint32_t i = 0; i < granule.vg_count; ++i) {
      home[granule.first_vg + i] = g;
    }
  }
  for (const PlannedMove& move : plan.moves) {
    EXPECT_EQ(home[move.vg], move.from);
    EXPECT_NE(move.from, move.to);
    home[move.vg] = move.to;
  }
  return home;
}

void ExpectNoOverlap(const Snapshot& snapshot, const Plan& plan) {
  const std::vector<uint32_t> home = Homes(snapshot, plan);
  std::vector<std::vector<bool>> live(
      snapshot.granules.size(),
      std::vector<bool>(snapshot.quanta_per_granule, false));
  for (uint32_t vg = 0; vg < home.size(); ++vg) {
    EXPECT_TRUE(Mark(snapshot, vg, &live[home[vg]])) << "I2: " << vg;
  }
}

// Sources are emptied whole and one after the other, into granules that are
// none, and that are no emptier or will stay anyway. Nothing pinned moves.
void ExpectWholeSources(const Snapshot& snapshot, const Plan& plan) {
  std::set<uint32_t> sources;
  std::set<uint32_t> hosts;
  uint64_t copied_quanta = 0;
  for (size_t i = 0; i < plan.moves.size();) {
    const uint32_t from = plan.moves[i].from;
    const SnapshotGranule& source = snapshot.granules[from];
    EXPECT_TRUE(sources.insert(from).second) << "not grouped";
    std::set<uint32_t> moved;
    for (; i < plan.moves.size() && plan.moves[i].from == from; ++i) {
      moved.insert(plan.moves[i].vg);
      hosts.insert(plan.moves[i].to);
      const SnapshotGranule& host = snapshot.granules[plan.moves[i].to];
      EXPECT_TRUE(host.live_quanta >= source.live_quanta ||
                  snapshot.IsPinned(host));
    }
    EXPECT_FALSE(snapshot.IsPinned(source));
    EXPECT_EQ(moved.size(), source.vg_count);
    copied_quanta += source.live_quanta;
  }
  for (const uint32_t source : sources) EXPECT_EQ(hosts.count(source), 0u);
  EXPECT_EQ(plan.emptied_granules, sources.size());
  EXPECT_EQ(plan.copied_quanta, copied_quanta);
}

void ExpectWithinLimits(const Snapshot& snapshot, const PlanLimits& limits,
                        const Plan& plan) {
  EXPECT_LE(plan.copied_quanta, limits.max_quanta);
  EXPECT_LE(plan.moves.size(), limits.max_moves);
  EXPECT_LE(plan.emptied_granules, limits.wanted_granules);
  std::vector<uint32_t> taken(snapshot.granules.size(), 0);
  for (const PlannedMove& move : plan.moves) ++taken[move.to];
  for (size_t i = 0; i < taken.size(); ++i) {
    if (taken[i] > 0) {
      EXPECT_LE(snapshot.granules[i].mappings + taken[i],
                limits.max_mappings_per_granule);
    }
  }
}

void ExpectGoodPlan(const Snapshot& snapshot, const PlanLimits& limits,
                    const Plan& plan) {
  ExpectNoOverlap(snapshot, plan);
  ExpectWholeSources(snapshot, plan);
  ExpectWithinLimits(snapshot, limits, plan);
  const uint32_t before = static_cast<uint32_t>(snapshot.granules.size());
  EXPECT_LE(plan.emptied_granules, before);
  EXPECT_LE(ComputeLowerBounds(snapshot).max(),
            before - plan.emptied_granules + snapshot.full_granules);
}

bool SameMoves(const Plan& a, const Plan& b) {
  return a.moves.size() == b.moves.size() &&
         std::equal(a.moves.begin(), a.moves.end(), b.moves.begin(),
                    [](const PlannedMove& x, const PlannedMove& y) {
                      return x.vg == y.vg && x.from == y.from && x.to == y.to;
                    });
}

std::vector<RandomSnapshotShape> Shapes() {
  std::vector<RandomSnapshotShape> shapes(5);
  shapes[1].quanta_per_granule = 4096;  // 64 quanta to a bit of the coarse mask
  shapes[1].slots = 256;
  shapes[1].most_live_percent = 30;
  shapes[2].quanta_per_granule = 64;
  shapes[2].slots = 64;
  shapes[2].granules = 20;
  shapes[2].most_live_percent = 30;
  shapes[3].quanta_per_granule = 16;
  shapes[3].slots = 16;
  shapes[3].most_live_percent = 40;
  shapes[4].granules = 30;
  shapes[4].slots = 8;
  shapes[4].most_vgs = 1;
  const size_t unpinned = shapes.size();
  for (size_t i = 0; i < unpinned; ++i) {
    shapes.push_back(shapes[i]);
    shapes.back().pinned_percent = 15;
  }
  return shapes;
}

constexpr uint64_t kSeeds = 20;

TEST(PlannerPropertyTest, EveryPlanIsSoundAndTheSameEachTime) {
  uint32_t emptied = 0;
  for (const RandomSnapshotShape& shape : Shapes()) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(seed);
      const Snapshot snapshot = RandomSnapshot(seed, shape);
      const Plan plan = MakePlan(snapshot, PlanLimits());
      ExpectGoodPlan(snapshot, PlanLimits(), plan);
      EXPECT_FALSE(plan.limited);
      EXPECT_TRUE(SameMoves(plan, MakePlan(snapshot, PlanLimits())));
      emptied += plan.emptied_granules;
    }
  }
  EXPECT_GT(emptied, 6 * kSeeds) << "hardly anything was planned";
}

// Gaps between the addresses of virtual granules, at random: none, few or
// nothing but gaps.
void SpreadAddresses(uint64_t seed, Snapshot* snapshot) {
  SmallRandom random(seed);
  uint32_t address = 0;
  for (SnapshotVg& vg : snapshot->vgs) {
    if (seed % 3 == 1 && random.OneIn(3)) ++address;
    if (seed % 3 == 2) ++address;
    vg.vg = VgIndex(address++);
  }
}

TEST(PlannerPropertyTest, ThePlanIsTheOneOfTheRules) {
  for (const RandomSnapshotShape& shape : Shapes()) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Snapshot snapshot = RandomSnapshot(seed, shape);
      SpreadAddresses(seed, &snapshot);
      PlanLimits limits;
      limits.max_mappings_per_granule = 1000;
      for (const uint32_t tolerance_quanta :
           {0u, 1u, shape.quanta_per_granule / 16}) {
        limits.neighbour_tolerance_quanta = tolerance_quanta;
        const Plan plan = MakePlan(snapshot, limits);
        ExpectGoodPlan(snapshot, limits, plan);
        ASSERT_TRUE(
            SameMoves(plan, SlowPlanner(snapshot, tolerance_quanta).Run()))
            << "seed " << seed << " of " << shape.quanta_per_granule
            << ", tolerance " << tolerance_quanta;
      }
    }
  }
}

// More than are searched at a time.
TEST(PlannerPropertyTest, ThePlanForManyGranulesIsTheOneOfTheRules) {
  RandomSnapshotShape shape;
  shape.quanta_per_granule = 64;
  shape.slots = 16;
  shape.granules = 700;
  Snapshot snapshot = RandomSnapshot(1, shape);
  PlanLimits limits;
  limits.max_mappings_per_granule = 1000;
  for (const uint32_t tolerance_quanta : {0u, 8u}) {
    limits.neighbour_tolerance_quanta = tolerance_quanta;
    const Plan plan = MakePlan(snapshot, limits);
    EXPECT_TRUE(SameMoves(plan, SlowPlanner(snapshot, tolerance_quanta).Run()));
    EXPECT_GT(plan.emptied_granules, 100u);
  }
}

TEST(PlannerPropertyTest, PlansUnderLimitsAreSoundPrefixesOfTheWhole) {
  for (const RandomSnapshotShape& shape : Shapes()) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(seed);
      const Snapshot snapshot = RandomSnapshot(seed, shape);
      const Plan whole = MakePlan(snapshot, PlanLimits());
      SmallRandom random(seed);
      PlanLimits limits;
      if (random.OneIn(2)) limits.max_quanta = random.Below(100);
      if (random.OneIn(2)) limits.max_moves = random.Below(8);
      if (random.OneIn(2)) limits.wanted_granules = random.Below(4);
      const Plan plan = MakePlan(snapshot, limits);
      ExpectGoodPlan(snapshot, limits, plan);
      EXPECT_TRUE(std::equal(plan.moves.begin(), plan.moves.end(),
                             whole.moves.begin(),
                             [](const PlannedMove& a, const PlannedMove& b) {
                               return a.vg == b.vg && a.to == b.to;
                             }));
      if (plan.moves.size() < whole.moves.size()) {
        EXPECT_TRUE(plan.limited ||
                    plan.emptied_granules == limits.wanted_granules);
      }
    }
  }
}

TEST(PlannerPropertyTest, OnlySourcesWorthTheirCostAreEmptied) {
  uint32_t skipped = 0;
  for (const RandomSnapshotShape& shape : Shapes()) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(seed);
      const Snapshot snapshot = RandomSnapshot(seed, shape);
      PlanLimits limits;
      limits.costs.freed_granule_us = 130;  // as much as two moves or so
      const Plan plan = MakePlan(snapshot, limits);
      ExpectGoodPlan(snapshot, limits, plan);
      EXPECT_LE(plan.cost_us, 130.0 * plan.emptied_granules);
      std::map<uint32_t, uint32_t> moves_from;
      for (const PlannedMove& move : plan.moves) ++moves_from[move.from];
      for (const auto& [from, moves] : moves_from) EXPECT_LE(moves, 2u) << from;
      skipped += plan.unprofitable_sources;
    }
  }
  EXPECT_GT(skipped, kSeeds);
}

TEST(PlannerPropertyTest, TheMappingLimitHoldsForEveryHost) {
  for (const RandomSnapshotShape& shape : Shapes()) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(seed);
      const Snapshot snapshot = RandomSnapshot(seed, shape);
      PlanLimits limits;
      for (uint32_t most : {1u, 3u, 5u, 7u}) {
        limits.max_mappings_per_granule = most;
        ExpectGoodPlan(snapshot, limits, MakePlan(snapshot, limits));
      }
    }
  }
}

TEST(PlannerPropertyTest, PinsOnlyEverCostGranules) {
  uint32_t emptied = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    RandomSnapshotShape shape;
    shape.most_live_percent = 30;
    shape.pinned_percent = 100;
    Snapshot snapshot = RandomSnapshot(seed, shape);
    const uint32_t granules = static_cast<uint32_t>(snapshot.granules.size());
    // The pins go one after the other.
    for (SnapshotVg& vg : snapshot.vgs) {
      const Plan plan = MakePlan(snapshot, PlanLimits());
      ASSERT_LE(plan.emptied_granules + plan.pinned_granules, granules);
      ASSERT_LE(ComputeLowerBounds(snapshot).by_pins,
                granules - plan.emptied_granules + snapshot.full_granules);
      vg.is_pinned = false;
    }
    emptied += MakePlan(snapshot, PlanLimits()).emptied_granules;
  }
  EXPECT_GT(emptied, kSeeds);
}

// A quarter of the small cases has pins.
TEST(PlannerPropertyTest, SmallCasesEndNoLowerThanTheExactLeast) {
  uint32_t exact_hits = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RandomSnapshotShape shape;
    shape.pinned_percent = seed % 4 == 0 ? 25 : 0;
    shape.granules = 4;
    shape.most_vgs = 2;
    shape.slots = 16;
    shape.most_live_percent = 40;
    const Snapshot snapshot = RandomSnapshot(seed, shape);
    const Plan plan = MakePlan(snapshot, PlanLimits());
    const uint32_t after = static_cast<uint32_t>(snapshot.granules.size()) -
                           plan.emptied_granules + snapshot.full_granules;
    const uint32_t least = LeastGranules(snapshot);
    ASSERT_GE(after, least) << seed;
    if (after == least) ++exact_hits;
  }
  // Greedy, and mostly right.
  EXPECT_GT(exact_hits, 60u);
}

TEST(PlannerPropertyTest, SingleIntervalsNeverEndBelowTheirDepth) {
  uint32_t emptied = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SmallRandom random(seed);
    SnapshotBuilder builder(128);
    for (int i = 0; i < 40; ++i) {
      const uint32_t lo = random.Below(120);
      builder.Granule(
          {{Extent(lo, random.Between(lo + 1, std::min(128u, lo + 50)))}});
    }
    const Snapshot snapshot = builder.Build();
    const Plan plan = MakePlan(snapshot, PlanLimits());
    ExpectGoodPlan(snapshot, PlanLimits(), plan);
    ASSERT_GE(40 - plan.emptied_granules,
              ComputeLowerBounds(snapshot).by_depth);
    emptied += plan.emptied_granules;
  }
  EXPECT_GT(emptied, 50u * 10);
}

}  // namespace
}  // namespace firn::testing

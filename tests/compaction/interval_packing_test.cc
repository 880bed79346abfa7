// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/interval_packing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/compaction/lower_bounds.h"
#include "firn/compaction/snapshot.h"
#include "gtest/gtest.h"
#include "tests/support/exact_colouring.h"
#include "tests/support/small_random.h"
#include "tests/support/snapshot_builder.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

std::vector<OffsetInterval> RandomIntervals(uint64_t seed, uint32_t most) {
  SmallRandom random(seed);
  const uint32_t quanta = random.Between(4, 64);
  std::vector<OffsetInterval> intervals(random.Between(1, most));
  const uint32_t longest = random.Between(1, quanta);
  for (OffsetInterval& interval : intervals) {
    interval.lo = random.Below(quanta);
    interval.hi = std::min(quanta, interval.lo + random.Between(1, longest));
  }
  return intervals;
}

// Which of them are on one granule must be disjoint, and the granules those
// that were counted.
void ExpectGoodPacking(const std::vector<OffsetInterval>& intervals,
                       const IntervalPacking& packing) {
  ASSERT_EQ(packing.granule_of.size(), intervals.size());
  std::vector<std::vector<bool>> live(packing.granules,
                                      std::vector<bool>(64, false));
  for (size_t i = 0; i < intervals.size(); ++i) {
    ASSERT_LT(packing.granule_of[i], packing.granules);
    for (uint32_t at = intervals[i].lo; at < intervals[i].hi; ++at) {
      ASSERT_FALSE(live[packing.granule_of[i]][at]) << "I2: " << i;
      live[packing.granule_of[i]][at] = true;
    }
  }
}

TEST(IntervalPackingTest, NoIntervalsNeedNoGranule) {
  EXPECT_EQ(GreatestDepth({}), 0u);
  EXPECT_EQ(PackIntervals({}).granules, 0u);
  // Nor do empty ones.
  const std::vector<OffsetInterval> empty = {Extent(3, 3), Extent(0, 0)};
  EXPECT_EQ(GreatestDepth(empty), 0u);
  EXPECT_EQ(PackIntervals(empty).granules, 0u);
  EXPECT_EQ(PackIntervals(empty).granule_of, std::vector<uint32_t>(2, 0));
}

TEST(IntervalPackingTest, IntervalsThatTouchShare) {
  const std::vector<OffsetInterval> intervals = {Extent(5, 9), Extent(0, 5),
                                                 Extent(9, 10)};
  EXPECT_EQ(GreatestDepth(intervals), 1u);
  EXPECT_EQ(PackIntervals(intervals).granule_of, std::vector<uint32_t>(3, 0));
}

TEST(IntervalPackingTest, ANewGranuleOpensOnlyWhereAllAreLive) {
  const std::vector<OffsetInterval> intervals = {
      Extent(0, 4), Extent(2, 8), Extent(3, 5), Extent(4, 6), Extent(5, 7)};
  const IntervalPacking packing = PackIntervals(intervals);
  EXPECT_EQ(packing.granules, 3u);
  EXPECT_EQ(packing.granule_of, (std::vector<uint32_t>{0, 1, 2, 0, 2}));
}

TEST(IntervalPackingTest, PackingsAreSoundAndNeedTheGreatestDepth) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::vector<OffsetInterval> intervals = RandomIntervals(seed, 40);
    const IntervalPacking packing = PackIntervals(intervals);
    ExpectGoodPacking(intervals, packing);
    ASSERT_FALSE(HasFatalFailure()) << seed;
    std::vector<uint32_t> depth(64, 0);
    for (const OffsetInterval& interval : intervals) {
      for (uint32_t at = interval.lo; at < interval.hi; ++at) ++depth[at];
    }
    const uint32_t greatest = *std::max_element(depth.begin(), depth.end());
    ASSERT_EQ(GreatestDepth(intervals), greatest) << seed;
    ASSERT_EQ(packing.granules, greatest) << seed;
  }
}

// The theorem, against every way to divide them up.
TEST(IntervalPackingTest, NoWayToDivideThemUpNeedsFewer) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const uint32_t most = seed % 50 == 0 ? 9 : 7;
    const std::vector<OffsetInterval> intervals = RandomIntervals(seed, most);
    SnapshotBuilder builder(64);
    for (const OffsetInterval& interval : intervals) {
      builder.Granule({{interval}});
    }
    ASSERT_EQ(PackIntervals(intervals).granules, LeastGranules(builder.Build()))
        << seed;
  }
}

TEST(HullPackingTest, AHullReachesFromTheFirstLiveQuantumToTheLast) {
  const Snapshot snapshot =
      SnapshotBuilder(64)
          .Granule({{Extent(3, 5), Extent(9, 10), Extent(20, 31)}, {}})
          .Build();
  EXPECT_EQ(HullOf(snapshot, snapshot.vgs[0]), Extent(3, 31));
  EXPECT_EQ(HullOf(snapshot, snapshot.vgs[1]), Extent(0, 0));
}

TEST(HullPackingTest, HolesOfHullsAreNotFilled) {
  SnapshotBuilder builder(64);
  builder.Granule({{Extent(0, 2), Extent(62, 64)}})
      .Granule({{Extent(10, 12)}})
      .Granule({{Extent(12, 14)}})
      .FullGranules(4);
  const IntervalPacking packing = PackHulls(builder.Build());
  EXPECT_EQ(packing.granules, 2u);
  EXPECT_EQ(packing.granule_of, (std::vector<uint32_t>{0, 1, 1}));
  EXPECT_EQ(SufficientGranules(builder.Build()), 6u);
}

TEST(HullPackingTest, GranulesWithSomethingPinnedStayAsTheyAre) {
  SnapshotBuilder builder(64);
  builder.Granule({{Extent(10, 12)}})
      .Granule({{Extent(12, 14)}})
      .Granule({{Extent(0, 2)}, {Extent(30, 40)}})
      .Pin(3);
  const IntervalPacking packing = PackHulls(builder.Build());
  EXPECT_EQ(packing.granules, 2u);
  EXPECT_EQ(packing.granule_of, (std::vector<uint32_t>{1, 1, 0, 0}));
  EXPECT_EQ(SufficientGranules(builder.Build()), 2u);
}

TEST(HullPackingTest, NeverAreMoreGranulesNeededThanThereAre) {
  // Two on one granule, each in the holes of the other.
  const Snapshot snapshot = SnapshotBuilder(64)
                                .Granule({{Extent(0, 2), Extent(10, 12)},
                                          {Extent(5, 6), Extent(20, 21)}})
                                .Build();
  EXPECT_EQ(PackHulls(snapshot).granules, 2u);
  EXPECT_EQ(SufficientGranules(snapshot), 1u);
}

TEST(HullPackingTest, PlacementsAreSoundAndBetweenTheBounds) {
  uint32_t saved = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RandomSnapshotShape shape;
    shape.granules = 12;
    shape.most_vgs = 3;
    shape.least_live_percent = 1;
    shape.most_live_percent = 3 + static_cast<uint32_t>(seed % 30);
    shape.pinned_percent = seed % 2 == 0 ? 0 : 15;
    const Snapshot snapshot = RandomSnapshot(seed, shape);
    const IntervalPacking packing = PackHulls(snapshot);
    std::vector<std::vector<bool>> live(packing.granules,
                                        std::vector<bool>(128, false));
    for (size_t vg = 0; vg < snapshot.vgs.size(); ++vg) {
      ASSERT_LT(packing.granule_of[vg], packing.granules) << seed;
      for (const OffsetInterval& extent :
           snapshot.ExtentsOf(snapshot.vgs[vg])) {
        for (uint32_t at = extent.lo; at < extent.hi; ++at) {
          ASSERT_FALSE(live[packing.granule_of[vg]][at]) << "I2: " << seed;
          live[packing.granule_of[vg]][at] = true;
        }
      }
    }
    const uint32_t granules = static_cast<uint32_t>(snapshot.granules.size());
    const uint32_t enough = SufficientGranules(snapshot);
    ASSERT_EQ(enough,
              snapshot.full_granules + std::min(granules, packing.granules));
    ASSERT_GE(enough, ComputeLowerBounds(snapshot).max()) << seed;
    saved += granules + snapshot.full_granules - enough;
  }
  EXPECT_GT(saved, 500u);
}

TEST(HullPackingTest, SmallCasesNeedNoMoreThanSaid) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RandomSnapshotShape shape;
    shape.granules = 4;
    shape.most_vgs = 2;
    shape.slots = 16;
    shape.most_live_percent = 25;
    shape.pinned_percent = seed % 3 == 0 ? 30 : 0;
    const Snapshot snapshot = RandomSnapshot(seed, shape);
    ASSERT_GE(SufficientGranules(snapshot), LeastGranules(snapshot)) << seed;
  }
}

}  // namespace
}  // namespace firn::testing

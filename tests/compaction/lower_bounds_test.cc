// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/lower_bounds.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/snapshot.h"
#include "gtest/gtest.h"
#include "tests/support/exact_colouring.h"
#include "tests/support/small_random.h"
#include "tests/support/snapshot_builder.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

TEST(LowerBoundsTest, NothingLiveNeedsNoGranule) {
  const LowerBounds bounds = ComputeLowerBounds(SnapshotBuilder(64).Build());
  EXPECT_EQ(bounds.by_bytes, 0u);
  EXPECT_EQ(bounds.by_depth, 0u);
  EXPECT_EQ(bounds.by_large, 0u);
  EXPECT_EQ(bounds.by_packing, 0u);
  EXPECT_EQ(bounds.max(), 0u);
}

TEST(LowerBoundsTest, FullGranulesCountInEveryBound) {
  const LowerBounds bounds =
      ComputeLowerBounds(SnapshotBuilder(64).FullGranules(3).Build());
  EXPECT_EQ(bounds.by_bytes, 3u);
  EXPECT_EQ(bounds.by_depth, 3u);
  EXPECT_EQ(bounds.by_large, 3u);
  EXPECT_EQ(bounds.by_pins, 3u);
  EXPECT_EQ(bounds.by_packing, 3u);
}

TEST(LowerBoundsTest, BytesRoundUpToGranules) {
  EXPECT_EQ(ComputeLowerBounds(SnapshotBuilder(64)
                                   .Granule({{Extent(0, 32)}})
                                   .Granule({{Extent(32, 64)}})
                                   .Build())
                .by_bytes,
            1u);
  EXPECT_EQ(ComputeLowerBounds(SnapshotBuilder(64)
                                   .Granule({{Extent(0, 32)}})
                                   .Granule({{Extent(31, 64)}})
                                   .Build())
                .by_bytes,
            2u);
}

TEST(LowerBoundsTest, DepthIsTheMostVirtualGranulesLiveAtOneOffset) {
  const LowerBounds bounds =
      ComputeLowerBounds(SnapshotBuilder(64)
                             .Granule({{Extent(0, 4), Extent(10, 12)}})
                             .Granule({{Extent(11, 13)}})
                             .Granule({{Extent(12, 14)}, {Extent(2, 3)}})
                             .Granule({{Extent(63, 64)}})
                             .Build());
  // Offset 11: the first and the second; offset 12: the second and the third.
  EXPECT_EQ(bounds.by_depth, 2u);
  EXPECT_EQ(bounds.by_bytes, 1u);
  EXPECT_EQ(bounds.by_large, 0u);
}

TEST(LowerBoundsTest, ExtentsThatTouchDoNotOverlap) {
  EXPECT_EQ(ComputeLowerBounds(SnapshotBuilder(64)
                                   .Granule({{Extent(0, 10)}})
                                   .Granule({{Extent(10, 20)}})
                                   .Build())
                .by_depth,
            1u);
}

TEST(LowerBoundsTest, VirtualGranulesOfMoreThanHalfAGranuleCannotShare) {
  const LowerBounds bounds = ComputeLowerBounds(
      SnapshotBuilder(64)
          .Granule({{Extent(0, 16), Extent(48, 64), Extent(20, 21)}})
          .Granule({{Extent(16, 20), Extent(21, 48), Extent(0, 3)}})
          .Granule({{Extent(0, 32)}})  // exactly half
          .Build());
  EXPECT_EQ(bounds.by_large, 2u);
}

TEST(LowerBoundsTest, MaxIsTheLargestOfThem) {
  LowerBounds bounds;
  bounds.by_bytes = 5;
  EXPECT_EQ(bounds.max(), 5u);
  bounds.by_depth = 6;
  EXPECT_EQ(bounds.max(), 6u);
  bounds.by_large = 7;
  EXPECT_EQ(bounds.max(), 7u);
  bounds.by_pins = 8;
  EXPECT_EQ(bounds.max(), 8u);
  bounds.by_packing = 9;
  EXPECT_EQ(bounds.max(), 9u);
}

TEST(LowerBoundsTest, EachGranuleWithSomethingPinnedStays) {
  SnapshotBuilder builder(64);
  builder.Granule({{Extent(0, 4)}, {Extent(4, 8)}})
      .Granule({{Extent(8, 12)}})
      .Granule({{Extent(12, 16)}})
      .Granule({{Extent(16, 20)}, {Extent(20, 24)}});
  EXPECT_EQ(ComputeLowerBounds(builder.Build()).by_pins, 0u);
  EXPECT_EQ(ComputeLowerBounds(builder.Build()).max(), 1u);
  builder.Pin(2);
  EXPECT_EQ(ComputeLowerBounds(builder.Build()).by_pins, 1u);
  builder.Pin(4).Pin(5);  // both on one granule
  EXPECT_EQ(ComputeLowerBounds(builder.Build()).by_pins, 2u);
  EXPECT_EQ(ComputeLowerBounds(builder.FullGranules(3).Build()).by_pins, 5u);
}

// Disjoint thirds and a little: three would be more than a granule.
TEST(LowerBoundsTest, PackingSeesThatNoThreeOfOverAThirdFit) {
  SnapshotBuilder builder(64);
  for (uint32_t lo : {0u, 22u, 42u}) {
    builder.Granule({{Extent(lo, lo + 22)}}).Granule({{Extent(lo, lo + 22)}});
  }
  const LowerBounds bounds = ComputeLowerBounds(builder.Build());
  EXPECT_EQ(bounds.by_bytes, 3u);
  EXPECT_EQ(bounds.by_large, 0u);
  EXPECT_EQ(bounds.by_packing, 3u);
  builder.Granule({{Extent(0, 22)}});
  EXPECT_EQ(ComputeLowerBounds(builder.Build()).by_bytes, 3u);
  EXPECT_EQ(ComputeLowerBounds(builder.Build()).by_packing, 4u);
}

TEST(LowerBoundsTest, WhatIsPinnedOnOneGranuleIsPackedAsOne) {
  SnapshotBuilder builder(64);
  builder.Granule({{Extent(0, 17)}, {Extent(20, 37)}})
      .Granule({{Extent(0, 17)}, {Extent(20, 37)}})
      .FullGranules(1);
  EXPECT_EQ(ComputeLowerBounds(builder.Build()).by_packing, 3u);
  builder.Pin(0).Pin(1);
  EXPECT_EQ(ComputeLowerBounds(builder.Build()).by_packing, 3u);
  // Three of 17 would have gone with each other, but 34 goes with none of 34.
  SnapshotBuilder thirds(64);
  thirds.Granule({{Extent(0, 17)}, {Extent(17, 34)}})
      .Granule({{Extent(0, 17)}, {Extent(34, 51)}})
      .Granule({{Extent(34, 51)}, {Extent(17, 34)}});
  EXPECT_EQ(ComputeLowerBounds(thirds.Build()).by_packing, 2u);
  for (size_t vg = 0; vg < 6; ++vg) thirds.Pin(vg);
  EXPECT_EQ(ComputeLowerBounds(thirds.Build()).by_packing, 3u);
}

TEST(LowerBoundsTest, NoBoundExceedsTheExactLeast) {
  int exact_hits = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    RandomSnapshotShape shape;
    shape.granules = 4;
    shape.most_vgs = 2;  // at most 8 in all
    shape.slots = 16;
    shape.pinned_percent = seed % 3 == 0 ? 30 : 0;
    shape.most_live_percent = 20 + static_cast<uint32_t>(seed % 7) * 10;
    const Snapshot snapshot = RandomSnapshot(seed, shape);
    const LowerBounds bounds = ComputeLowerBounds(snapshot);
    const uint32_t least = LeastGranules(snapshot);
    ASSERT_LE(bounds.by_bytes, least) << seed;
    ASSERT_LE(bounds.by_depth, least) << seed;
    ASSERT_LE(bounds.by_large, least) << seed;
    ASSERT_LE(bounds.by_pins, least) << seed;
    ASSERT_LE(bounds.by_packing, least) << seed;
    ASSERT_GE(bounds.by_packing, bounds.by_bytes) << seed;
    ASSERT_GE(bounds.by_packing, bounds.by_large) << seed;
    if (bounds.max() == least) ++exact_hits;
  }
  // Bounds of nothing would pass the above.
  EXPECT_GT(exact_hits, 75);
}

// Where each virtual granule is live in one interval, depth tells the truth.
TEST(LowerBoundsTest, DepthIsExactForSingleIntervals) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SmallRandom random(seed);
    SnapshotBuilder builder(64);
    for (int i = 0; i < 8; ++i) {
      const uint32_t lo = random.Below(60);
      builder.Granule({{Extent(lo, random.Between(lo + 1, 64))}});
    }
    const Snapshot snapshot = builder.FullGranules(random.Below(3)).Build();
    ASSERT_EQ(ComputeLowerBounds(snapshot).by_depth, LeastGranules(snapshot))
        << seed;
  }
}

// By the definition, one offset at a time.
// Granules without a clear quantum, in which nothing is pinned, left out of the
// list and counted instead.
Snapshot WithPackedGranules(const Snapshot& snapshot) {
  Snapshot packed = snapshot;
  packed.granules.clear();
  for (const SnapshotGranule& granule : snapshot.granules) {
    if (granule.live_quanta < snapshot.quanta_per_granule ||
        snapshot.IsPinned(granule)) {
      packed.granules.push_back(granule);
      continue;
    }
    ++packed.packed_granules;
    for (const SnapshotVg& vg : snapshot.VgsOf(granule)) {
      packed.packed_vg_quanta.push_back(vg.live_quanta);
    }
  }
  // Only what is listed counts.
  std::vector<SnapshotVg> vgs;
  for (SnapshotGranule& granule : packed.granules) {
    const absl::Span<const SnapshotVg> its = snapshot.VgsOf(granule);
    granule.first_vg = static_cast<uint32_t>(vgs.size());
    vgs.insert(vgs.end(), its.begin(), its.end());
  }
  packed.vgs = vgs;
  return packed;
}

TEST(LowerBoundsTest, PackedGranulesCountAsIfTheyWereListed) {
  uint32_t packed_granules = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    RandomSnapshotShape shape;
    shape.granules = 30;
    shape.slots = 8;
    shape.most_live_percent = 120;
    shape.pinned_percent = 5;
    const Snapshot snapshot = RandomSnapshot(seed, shape);
    const Snapshot packed = WithPackedGranules(snapshot);
    packed_granules += packed.packed_granules;
    const LowerBounds listed = ComputeLowerBounds(snapshot);
    const LowerBounds counted = ComputeLowerBounds(packed);
    ASSERT_EQ(counted.by_bytes, listed.by_bytes);
    ASSERT_EQ(counted.by_depth, listed.by_depth);
    ASSERT_EQ(counted.by_large, listed.by_large);
    ASSERT_EQ(counted.by_pins, listed.by_pins);
    ASSERT_EQ(counted.by_packing, listed.by_packing);
    // Nothing can leave them, and nothing come.
    ASSERT_EQ(MakePlan(packed, PlanLimits()).emptied_granules,
              MakePlan(snapshot, PlanLimits()).emptied_granules);
  }
  EXPECT_GT(packed_granules, 100u);
}

TEST(LowerBoundsTest, RandomSnapshotsHaveTheBoundsOfTheirDefinition) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    RandomSnapshotShape shape;
    shape.granules = 30;
    const Snapshot snapshot = RandomSnapshot(seed, shape);
    std::vector<uint32_t> depth(snapshot.quanta_per_granule, 0);
    uint32_t live_quanta = 0;
    for (const SnapshotVg& vg : snapshot.vgs) {
      for (const OffsetInterval& extent : snapshot.ExtentsOf(vg)) {
        for (uint32_t i = extent.lo; i < extent.hi; ++i) {
          ++depth[i];
          ++live_quanta;
        }
      }
    }
    const LowerBounds bounds = ComputeLowerBounds(snapshot);
    const uint32_t full = snapshot.full_granules;
    ASSERT_EQ(bounds.by_depth,
              full + *std::max_element(depth.begin(), depth.end()));
    ASSERT_EQ(bounds.by_bytes, full + (live_quanta + 127) / 128);
  }
}

}  // namespace
}  // namespace firn::testing

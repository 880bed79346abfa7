// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/stripe_packing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "firn/compaction/lower_bounds.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/snapshot.h"
#include "gtest/gtest.h"
#include "tests/support/exact_colouring.h"
#include "tests/support/small_random.h"
#include "tests/support/snapshot_builder.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

constexpr uint32_t kQuanta = 64;

struct StripesShape {
  uint32_t stripes = 4;
  uint32_t granules = 20;
  uint32_t most_vgs = 0xffffffffu;  // of all granules
  uint32_t pinned_percent = 0;
};

// Each is live at the first quantum of its stripe, so that no two share, and at
// some others behind it.
Snapshot RandomStripes(uint64_t seed, const StripesShape& shape) {
  SmallRandom random(seed);
  const uint32_t width = kQuanta / shape.stripes;
  const uint32_t one_in = random.Between(1, 4);
  SnapshotBuilder builder(kQuanta);
  uint32_t vgs_left = shape.most_vgs;
  size_t vg_count = 0;
  std::vector<size_t> pinned;
  for (uint32_t g = 0; g < shape.granules && vgs_left > 0; ++g) {
    std::vector<Extents> vgs;
    const uint32_t always = random.Below(shape.stripes);
    for (uint32_t stripe = 0; stripe < shape.stripes && vgs_left > 0;
         ++stripe) {
      if (stripe != always && !random.OneIn(one_in)) continue;
      const uint32_t lo = stripe * width;
      Extents extents = {Extent(lo, lo + random.Between(1, width / 2))};
      if (random.OneIn(2)) {
        extents.push_back(Extent(lo + width - 1, lo + width));
      }
      vgs.push_back(extents);
      --vgs_left;
      if (random.Below(100) < shape.pinned_percent) pinned.push_back(vg_count);
      ++vg_count;
    }
    if (!vgs.empty()) builder.Granule(vgs, random.Below(3));
  }
  for (const size_t vg : pinned) builder.Pin(vg);
  return builder.FullGranules(random.Below(3)).Build();
}

uint32_t StripeOf(const Snapshot& snapshot, const SnapshotVg& vg,
                  uint32_t stripes) {
  return snapshot.ExtentsOf(vg).front().lo / (kQuanta / stripes);
}

// By trying every choice of sources: element m is the least that must be copied
// to free m of the granules, as far as that is possible at all.
std::vector<uint64_t> LeastCopiedOverAllSources(const Snapshot& snapshot,
                                                uint32_t stripes) {
  const size_t granules = snapshot.granules.size();
  std::vector<uint64_t> least(granules + 1, ~uint64_t{0});
  for (uint32_t sources = 0; sources < (1u << granules); ++sources) {
    size_t freed = 0;
    uint64_t copied = 0;
    bool possible = true;
    std::vector<int> room(stripes, 0);
    for (size_t g = 0; g < granules; ++g) {
      const SnapshotGranule& granule = snapshot.granules[g];
      const bool is_source = (sources >> g & 1) != 0;
      if (is_source) {
        ++freed;
        copied += granule.live_quanta;
        if (snapshot.IsPinned(granule)) possible = false;
      } else {
        for (int& of_stripe : room) ++of_stripe;
      }
      for (const SnapshotVg& vg : snapshot.VgsOf(granule)) {
        --room[StripeOf(snapshot, vg, stripes)];
      }
    }
    possible = possible && *std::min_element(room.begin(), room.end()) >= 0;
    if (possible) least[freed] = std::min(least[freed], copied);
  }
  while (least.back() == ~uint64_t{0}) least.pop_back();
  return least;
}

TEST(StripeCensusTest, VirtualGranulesAreCountedByStripe) {
  const Snapshot snapshot = SnapshotBuilder(kQuanta)
                                .Granule({{Extent(0, 16)}, {Extent(31, 32)}})
                                .Granule({{Extent(16, 17), Extent(20, 21)}, {}})
                                .Granule({{Extent(48, 64)}})
                                .Pin(4)
                                .Build();
  const StripeCensus census = CountStripes(snapshot, 4);
  EXPECT_EQ(census.vgs_by_stripe, (std::vector<uint32_t>{1, 2, 0, 1}));
  EXPECT_EQ(census.most(), 2u);
  EXPECT_EQ(census.pinned_granules, 1u);
  EXPECT_TRUE(census.is_striped());
  EXPECT_EQ(LeastGranulesOfStripes(snapshot, census), 2u);
}

TEST(StripeCensusTest, WhatIsInSeveralStripesIsCountedApart) {
  const StripeCensus census =
      CountStripes(SnapshotBuilder(kQuanta)
                       .Granule({{Extent(15, 17)}, {Extent(20, 22)}})
                       .Granule({{Extent(0, 1), Extent(63, 64)}})
                       .Build(),
                   4);
  EXPECT_EQ(census.crossing_vgs, 2u);
  EXPECT_EQ(census.vgs_by_stripe, (std::vector<uint32_t>{0, 1, 0, 0}));
  EXPECT_FALSE(census.is_striped());
}

TEST(StripeCensusTest, TwoOfOneStripeOnOneGranuleAreNoStripes) {
  const StripeCensus census = CountStripes(
      SnapshotBuilder(kQuanta)
          .Granule({{Extent(0, 2)}, {Extent(20, 22)}, {Extent(4, 6)}})
          .Granule({{Extent(0, 2)}})
          .Build(),
      4);
  EXPECT_EQ(census.vgs_by_stripe, (std::vector<uint32_t>{3, 1, 0, 0}));
  EXPECT_EQ(census.doubled_vgs, 1u);
  EXPECT_FALSE(census.is_striped());
}

TEST(StripeCensusTest, NothingLiveIsInNoStripe) {
  const Snapshot snapshot = SnapshotBuilder(kQuanta).FullGranules(2).Build();
  const StripeCensus census = CountStripes(snapshot, 4);
  EXPECT_EQ(census.most(), 0u);
  EXPECT_TRUE(census.is_striped());
  EXPECT_EQ(LeastGranulesOfStripes(snapshot, census), 2u);
  EXPECT_EQ(LeastCopiedQuanta(snapshot, census), (std::vector<uint64_t>{0}));
  EXPECT_TRUE(PackStripes(snapshot, 4).empty());
}

TEST(StripePackingTest, TheSparsestComeFirstAndThePinnedNotAtAll) {
  SnapshotBuilder builder(kQuanta);
  builder.Granule({{Extent(0, 5)}, {Extent(16, 20)}})
      .Granule({{Extent(16, 18)}})
      .Granule({{Extent(32, 33)}})
      .Granule({{Extent(48, 50)}})
      .Granule({{Extent(0, 1)}});
  EXPECT_EQ(SparsestFirst(builder.Build()),
            (std::vector<uint32_t>{2, 4, 1, 3, 0}));
  // The most of one stripe is 2: three can be freed, for 1, 1 and 2 quanta.
  EXPECT_EQ(
      LeastCopiedQuanta(builder.Build(), CountStripes(builder.Build(), 4)),
      (std::vector<uint64_t>{0, 1, 2, 4}));
  builder.Pin(3);
  EXPECT_EQ(SparsestFirst(builder.Build()),
            (std::vector<uint32_t>{4, 1, 3, 0}));
  EXPECT_EQ(
      LeastCopiedQuanta(builder.Build(), CountStripes(builder.Build(), 4)),
      (std::vector<uint64_t>{0, 1, 3, 5}));
}

class StripePackingTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  uint32_t stripes() const { return GetParam(); }
  StripesShape Shape(uint64_t seed) const {
    StripesShape shape;
    shape.stripes = stripes();
    shape.pinned_percent = seed % 2 == 0 ? 0 : 10;
    return shape;
  }
};

TEST_P(StripePackingTest, PlacementsAreSoundAndKeepWhatIsPinned) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Snapshot snapshot = RandomStripes(seed, Shape(seed));
    const StripeCensus census = CountStripes(snapshot, stripes());
    ASSERT_TRUE(census.is_striped());
    const std::vector<uint32_t> granule_of = PackStripes(snapshot, stripes());
    const uint32_t least =
        LeastGranulesOfStripes(snapshot, census) - snapshot.full_granules;
    std::set<std::pair<uint32_t, uint32_t>> taken;
    for (size_t vg = 0; vg < granule_of.size(); ++vg) {
      ASSERT_LT(granule_of[vg], least) << seed;
      const uint32_t stripe = StripeOf(snapshot, snapshot.vgs[vg], stripes());
      ASSERT_TRUE(taken.insert({granule_of[vg], stripe}).second) << seed;
    }
    // Pinned: together exactly where they were together.
    uint32_t pinned_granules = 0;
    for (const SnapshotGranule& granule : snapshot.granules) {
      if (!snapshot.IsPinned(granule)) continue;
      for (uint32_t i = 0; i < granule.vg_count; ++i) {
        if (!snapshot.vgs[granule.first_vg + i].is_pinned) continue;
        ASSERT_EQ(granule_of[granule.first_vg + i], pinned_granules) << seed;
      }
      ++pinned_granules;
    }
  }
}

// (a), against every way to divide them up.
TEST_P(StripePackingTest, NoWayToDivideThemUpNeedsFewerGranules) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    StripesShape shape = Shape(seed);
    shape.granules = 5;
    shape.most_vgs = seed % 20 == 0 ? 9 : 7;
    const Snapshot snapshot = RandomStripes(seed, shape);
    ASSERT_EQ(
        LeastGranulesOfStripes(snapshot, CountStripes(snapshot, stripes())),
        LeastGranules(snapshot))
        << seed;
  }
}

// (b), against every choice of sources.
TEST_P(StripePackingTest, NoChoiceOfSourcesCopiesLess) {
  size_t freed = 0;
  for (uint64_t seed = 0; seed < 800; ++seed) {
    StripesShape shape = Shape(seed);
    shape.granules = 6;
    const Snapshot snapshot = RandomStripes(seed, shape);
    const std::vector<uint64_t> least =
        LeastCopiedQuanta(snapshot, CountStripes(snapshot, stripes()));
    ASSERT_EQ(least, LeastCopiedOverAllSources(snapshot, stripes())) << seed;
    freed += least.size() - 1;
  }
  // Of a single stripe no two can share.
  EXPECT_EQ(freed > 500, stripes() > 1) << freed;
}

TEST_P(StripePackingTest, PlansFreeTheMostAndCopyTheLeastForEveryNumber) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    StripesShape shape = Shape(seed);
    shape.granules = 40;
    const Snapshot snapshot = RandomStripes(seed, shape);
    const StripeCensus census = CountStripes(snapshot, stripes());
    const std::vector<uint64_t> least = LeastCopiedQuanta(snapshot, census);
    for (uint32_t wanted = 0; wanted < least.size(); ++wanted) {
      PlanLimits limits;
      limits.wanted_granules = wanted;
      const Plan plan = MakePlan(snapshot, limits);
      ASSERT_EQ(plan.emptied_granules, wanted) << seed;
      ASSERT_EQ(plan.copied_quanta, least[wanted]) << seed << ": " << wanted;
    }
    const Plan whole = MakePlan(snapshot, PlanLimits());
    ASSERT_EQ(whole.emptied_granules, least.size() - 1) << seed;
    ASSERT_EQ(whole.copied_quanta, least.back()) << seed;
    // And the bounds know it.
    ASSERT_EQ(ComputeLowerBounds(snapshot).max(),
              LeastGranulesOfStripes(snapshot, census))
        << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Stripes, StripePackingTest,
                         ::testing::Values(1u, 2u, 4u, 8u));

}  // namespace
}  // namespace firn::testing

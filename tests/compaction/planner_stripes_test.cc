// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Aligned equal stripes: each granule holds at most one virtual granule of
// each of k colours. Plans are then optimal, for every number of granules
// freed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "firn/compaction/lower_bounds.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/snapshot.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/snapshot_builder.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

constexpr uint32_t kQuanta = 256;

// Which colours each granule has.
struct Stripes {
  Snapshot snapshot;
  std::vector<std::vector<bool>> colours;  // by granule, by colour
};

// Each stripe is live at its first quantum, so that two of one colour never
// share, and at random others behind it.
Stripes RandomStripes(uint64_t seed, uint32_t colour_count,
                      uint32_t granule_count) {
  SmallRandom random(seed);
  const uint32_t width = kQuanta / colour_count;
  const uint32_t one_in = random.Between(2, 4);
  SnapshotBuilder builder(kQuanta);
  Stripes stripes;
  for (uint32_t g = 0; g < granule_count; ++g) {
    std::vector<bool> colours(colour_count, false);
    std::vector<Extents> vgs;
    const uint32_t always = random.Below(colour_count);
    for (uint32_t colour = 0; colour < colour_count; ++colour) {
      if (colour != always && !random.OneIn(one_in)) continue;
      colours[colour] = true;
      const uint32_t lo = colour * width;
      Extents extents = {Extent(lo, lo + random.Between(1, width / 2))};
      if (random.OneIn(2)) {
        extents.push_back(
            Extent(lo + width / 2 + random.Between(1, width / 4), lo + width));
      }
      vgs.push_back(extents);
    }
    builder.Granule(vgs);
    stripes.colours.push_back(colours);
  }
  stripes.snapshot = builder.Build();
  return stripes;
}

// H: the most virtual granules of one colour.
uint32_t MostOfOneColour(const Stripes& stripes) {
  std::vector<uint32_t> counts(stripes.colours.front().size(), 0);
  for (const std::vector<bool>& colours : stripes.colours) {
    for (size_t colour = 0; colour < colours.size(); ++colour) {
      if (colours[colour]) ++counts[colour];
    }
  }
  return *std::max_element(counts.begin(), counts.end());
}

// Tries every choice of sources: the least that must be copied to free
// `freed` granules.
uint64_t LeastCopied(const Stripes& stripes, uint32_t freed) {
  const size_t granules = stripes.colours.size();
  uint64_t least = ~uint64_t{0};
  for (uint32_t sources = 0; sources < (1u << granules); ++sources) {
    uint32_t count = 0;
    uint64_t copied = 0;
    std::vector<int> room(stripes.colours.front().size(), 0);
    for (size_t g = 0; g < granules; ++g) {
      const bool is_source = (sources >> g & 1) != 0;
      if (is_source) {
        ++count;
        copied += stripes.snapshot.granules[g].live_quanta;
      }
      for (size_t colour = 0; colour < room.size(); ++colour) {
        if (is_source && stripes.colours[g][colour]) --room[colour];
        if (!is_source && !stripes.colours[g][colour]) ++room[colour];
      }
    }
    const bool fits = *std::min_element(room.begin(), room.end()) >= 0;
    if (count == freed && fits) least = std::min(least, copied);
  }
  return least;
}

class PlannerStripesTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  uint32_t colours() const { return GetParam(); }
};

TEST_P(PlannerStripesTest, AFullPlanLeavesAsManyAsTheCommonestColour) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Stripes stripes = RandomStripes(seed, colours(), 60);
    const Plan plan = MakePlan(stripes.snapshot, PlanLimits());
    const uint32_t most = MostOfOneColour(stripes);
    ASSERT_EQ(60 - plan.emptied_granules, most) << seed;
    // No plan can do better: the bound says so.
    ASSERT_EQ(ComputeLowerBounds(stripes.snapshot).by_depth, most);
  }
}

TEST_P(PlannerStripesTest, FreeingMCopiesTheMSparsestForEveryM) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Stripes stripes = RandomStripes(seed, colours(), 60);
    std::vector<uint64_t> live;
    for (const SnapshotGranule& granule : stripes.snapshot.granules) {
      live.push_back(granule.live_quanta);
    }
    std::sort(live.begin(), live.end());
    const uint32_t freeable = 60 - MostOfOneColour(stripes);
    ASSERT_GT(freeable, 3u);
    for (uint32_t freed = 0; freed <= freeable; ++freed) {
      PlanLimits limits;
      limits.wanted_granules = freed;
      const Plan plan = MakePlan(stripes.snapshot, limits);
      ASSERT_EQ(plan.emptied_granules, freed) << seed;
      ASSERT_EQ(
          plan.copied_quanta,
          std::accumulate(live.begin(), live.begin() + freed, uint64_t{0}))
          << seed << ": " << freed;
    }
  }
}

TEST_P(PlannerStripesTest, NoOtherChoiceOfSourcesCopiesLess) {
  for (uint64_t seed = 100; seed < 110; ++seed) {
    const Stripes stripes = RandomStripes(seed, colours(), 8);
    for (uint32_t freed = 0; freed <= 8; ++freed) {
      PlanLimits limits;
      limits.wanted_granules = freed;
      const Plan plan = MakePlan(stripes.snapshot, limits);
      const uint64_t least = LeastCopied(stripes, freed);
      if (least == ~uint64_t{0}) {
        ASSERT_LT(plan.emptied_granules, freed) << seed;
      } else {
        ASSERT_EQ(plan.emptied_granules, freed) << seed;
        ASSERT_EQ(plan.copied_quanta, least) << seed << ": " << freed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Colours, PlannerStripesTest,
                         ::testing::Values(2u, 4u, 8u));

}  // namespace
}  // namespace firn::testing

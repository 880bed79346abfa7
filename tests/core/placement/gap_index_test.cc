// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/gap_index.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kAll = std::numeric_limits<int>::max();

// What a search is offered, in order.
std::vector<uint32_t> Offered(const GapIndex& index, uint32_t quanta,
                              int tries = kAll) {
  std::vector<uint32_t> offered;
  const GranuleId found =
      index.Find(quanta, tries, [&offered](GranuleId granule) {
        offered.push_back(granule.value());
        return false;
      });
  EXPECT_TRUE(found.is_none());
  return offered;
}

TEST(GapIndexTest, AnEmptyIndexOffersNothing) {
  const GapIndex index;
  EXPECT_THAT(Offered(index, 1), IsEmpty());
  EXPECT_FALSE(index.contains(GranuleId(0)));
}

TEST(GapIndexTest, AGranuleIsInUntilItsGapIsZero) {
  GapIndex index;
  index.Set(GranuleId(3), 10);
  EXPECT_TRUE(index.contains(GranuleId(3)));
  EXPECT_FALSE(index.contains(GranuleId(2)));
  EXPECT_FALSE(index.contains(GranuleId(4)));
  EXPECT_THAT(Offered(index, 10), ElementsAre(3));
  index.Set(GranuleId(3), 0);
  EXPECT_FALSE(index.contains(GranuleId(3)));
  EXPECT_THAT(Offered(index, 1), IsEmpty());
}

TEST(GapIndexTest, TakingOutWhatIsNotInChangesNothing) {
  GapIndex index;
  index.Set(GranuleId(100), 0);
  EXPECT_FALSE(index.contains(GranuleId(100)));
  index.Set(GranuleId(3), 10);
  index.Set(GranuleId(2), 0);
  EXPECT_THAT(Offered(index, 10), ElementsAre(3));
}

TEST(GapIndexTest, SettingAgainMovesAGranule) {
  GapIndex index;
  index.Set(GranuleId(1), 10);
  index.Set(GranuleId(1), 1000);
  EXPECT_THAT(Offered(index, 1), ElementsAre(1));
  EXPECT_THAT(Offered(index, 900), ElementsAre(1));
  index.Set(GranuleId(1), 5);
  EXPECT_THAT(Offered(index, 900), IsEmpty());
}

TEST(GapIndexTest, SmallestBinsAreOfferedFirst) {
  GapIndex index;
  index.Set(GranuleId(0), 4096);
  index.Set(GranuleId(1), 64);
  index.Set(GranuleId(2), 512);
  index.Set(GranuleId(3), 8);
  EXPECT_THAT(Offered(index, 1), ElementsAre(3, 1, 2, 0));
  EXPECT_THAT(Offered(index, 65), ElementsAre(1, 2, 0));  // 64: the same bin
  EXPECT_THAT(Offered(index, 80), ElementsAre(2, 0));
}

TEST(GapIndexTest, FindReturnsWhatIsAccepted) {
  GapIndex index;
  for (uint32_t i = 0; i < 5; ++i) index.Set(GranuleId(i), 10u << i);
  const GranuleId found = index.Find(
      1, kAll, [](GranuleId granule) { return granule.value() >= 3; });
  EXPECT_EQ(found, GranuleId(3));
}

TEST(GapIndexTest, SoManyTriesAreMadeAndNoMore) {
  GapIndex index;
  for (uint32_t i = 0; i < 10; ++i) index.Set(GranuleId(i), i < 5 ? 10 : 100);
  EXPECT_EQ(Offered(index, 1, 1).size(), 1u);
  EXPECT_EQ(Offered(index, 1, 7).size(), 7u);
  EXPECT_EQ(Offered(index, 1, 10).size(), 10u);
  EXPECT_EQ(Offered(index, 1, 11).size(), 10u);
}

TEST(GapIndexTest, OneBinIsAListFromWhichAnyOneCanGo) {
  for (uint32_t gone = 0; gone < 4; ++gone) {
    GapIndex index;
    for (uint32_t i = 0; i < 4; ++i) index.Set(GranuleId(i), 7);
    index.Set(GranuleId(gone), 0);
    std::vector<uint32_t> left = Offered(index, 7);
    std::sort(left.begin(), left.end());
    std::vector<uint32_t> expected = {0, 1, 2, 3};
    expected.erase(expected.begin() + gone);
    EXPECT_EQ(left, expected);
    for (const uint32_t other : expected) index.Set(GranuleId(other), 0);
    EXPECT_THAT(Offered(index, 1), IsEmpty());
  }
}

// Every gap up to that of the largest granule: it is offered to whatever fits,
// and to nothing that is more than an eighth larger.
TEST(GapIndexTest, AGapIsOfferedToAllThatFitsAndHardlyMore) {
  std::vector<uint32_t> gaps;
  for (uint32_t gap = 1; gap <= 300; ++gap) gaps.push_back(gap);
  for (uint32_t octave = 512; octave <= 131072; octave *= 2) {
    for (const uint32_t gap : {octave - 1, octave, octave + 1,
                               octave + octave / 8 - 1, octave + octave / 8}) {
      gaps.push_back(gap);
    }
  }
  for (const uint32_t gap : gaps) {
    GapIndex index;
    index.Set(GranuleId(0), gap);
    for (const uint32_t quanta : {1u, gap / 2, gap - gap / 8, gap - 1, gap}) {
      if (quanta == 0) continue;
      ASSERT_EQ(Offered(index, quanta).size(), 1u)
          << quanta << " in a gap of " << gap;
    }
    ASSERT_THAT(Offered(index, gap + gap / 8 + 1), IsEmpty()) << gap;
  }
}

TEST(GapIndexTest, FirstAtLeastIsLargeEnoughForCertain) {
  GapIndex index;
  EXPECT_TRUE(index.FirstAtLeast(1).is_none());
  index.Set(GranuleId(0), 70);  // a bin of 64 to 71
  EXPECT_EQ(index.FirstAtLeast(1), GranuleId(0));
  EXPECT_EQ(index.FirstAtLeast(64), GranuleId(0));
  EXPECT_TRUE(index.FirstAtLeast(71).is_none());
  EXPECT_TRUE(index.FirstAtLeast(72).is_none());
  index.Set(GranuleId(1), 80);
  EXPECT_EQ(index.FirstAtLeast(71), GranuleId(1));
  EXPECT_EQ(index.FirstAtLeast(60), GranuleId(0));
  index.Set(GranuleId(0), 0);
  EXPECT_EQ(index.FirstAtLeast(60), GranuleId(1));
  index.Set(GranuleId(1), 0);
  EXPECT_TRUE(index.FirstAtLeast(1).is_none());
}

TEST(GapIndexTest, RandomChangesAgreeWithAMap) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SmallRandom random(seed);
    GapIndex index;
    std::map<uint32_t, uint32_t> gaps;
    for (int step = 0; step < 300; ++step) {
      const uint32_t granule = random.Below(20);
      const uint32_t gap = random.OneIn(3) ? 0 : random.Between(1, 500);
      index.Set(GranuleId(granule), gap);
      gaps[granule] = gap;
      const uint32_t quanta = random.Between(1, 500);
      const GranuleId certain = index.FirstAtLeast(quanta);
      if (!certain.is_none()) {
        ASSERT_GE(gaps[certain.value()], quanta);
      }
      const std::vector<uint32_t> offered = Offered(index, quanta);
      const std::set<uint32_t> distinct(offered.begin(), offered.end());
      ASSERT_EQ(distinct.size(), offered.size());
      uint32_t largest = 0;
      for (const uint32_t each : offered) {
        // In order, up to the width of a bin.
        ASSERT_GT(gaps[each] + gaps[each] / 8 + 1, largest);
        largest = std::max(largest, gaps[each]);
      }
      for (const auto& [each, its_gap] : gaps) {
        ASSERT_EQ(index.contains(GranuleId(each)), its_gap > 0);
        if (its_gap >= quanta) {
          ASSERT_EQ(distinct.count(each), 1u);
        }
        // A gap of an eighth more is in a bin of its own.
        if (its_gap > quanta + quanta / 8) {
          ASSERT_FALSE(certain.is_none());
        }
      }
    }
  }
}

}  // namespace
}  // namespace firn::testing

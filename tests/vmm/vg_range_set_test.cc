// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/vg_range_set.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Eq;
using ::testing::Optional;

// All ranges, by walking up the lengths.
std::vector<VgRange> ByLength(const VgRangeSet& set) {
  std::vector<VgRange> ranges;
  for (std::optional<VgRange> range = set.Shortest(); range.has_value();
       range = set.NextByLength(*range)) {
    ranges.push_back(*range);
  }
  return ranges;
}

TEST(VgRangeSetTest, AnEmptySetFindsNothing) {
  const VgRangeSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.vg_count(), 0u);
  EXPECT_EQ(set.range_count(), 0u);
  EXPECT_EQ(set.Find(VgIndex(0)), std::nullopt);
  EXPECT_EQ(set.BestFit(1), std::nullopt);
  EXPECT_EQ(set.Shortest(), std::nullopt);
  EXPECT_EQ(set.Longest(), std::nullopt);
  EXPECT_EQ(set.Last(), std::nullopt);
  EXPECT_EQ(set.NextByLength(Vgs(3, 1)), std::nullopt);
  EXPECT_EQ(set.PreviousByLength(Vgs(3, 1)), std::nullopt);
  EXPECT_TRUE(set.CheckInvariants());
}

TEST(VgRangeSetTest, EmptyRangesChangeNothing) {
  VgRangeSet set;
  set.Insert(Vgs(5, 0));
  EXPECT_TRUE(set.empty());
  set.Insert(Vgs(4, 3));
  set.Remove(Vgs(5, 0));
  EXPECT_THAT(ByLength(set), ElementsAre(Vgs(4, 3)));
}

TEST(VgRangeSetTest, RangesWithAHoleBetweenThemStayApart) {
  VgRangeSet set;
  set.Insert(Vgs(0, 2));
  set.Insert(Vgs(3, 2));
  EXPECT_EQ(set.range_count(), 2u);
  EXPECT_EQ(set.vg_count(), 4u);
  EXPECT_EQ(set.Find(VgIndex(2)), std::nullopt);
  EXPECT_TRUE(set.CheckInvariants());
}

TEST(VgRangeSetTest, NeighboursCoalesceOnEitherSideAndOnBoth) {
  VgRangeSet set;
  set.Insert(Vgs(4, 2));
  set.Insert(Vgs(6, 1));  // behind
  EXPECT_THAT(ByLength(set), ElementsAre(Vgs(4, 3)));
  set.Insert(Vgs(3, 1));  // before
  EXPECT_THAT(ByLength(set), ElementsAre(Vgs(3, 4)));
  set.Insert(Vgs(0, 2));
  EXPECT_EQ(set.range_count(), 2u);
  set.Insert(Vgs(2, 1));  // both
  EXPECT_THAT(ByLength(set), ElementsAre(Vgs(0, 7)));
  EXPECT_EQ(set.vg_count(), 7u);
  EXPECT_TRUE(set.CheckInvariants());
}

TEST(VgRangeSetTest, RemovingFromARangeLeavesWhatIsOnEitherSide) {
  VgRangeSet set;
  set.Insert(Vgs(0, 10));
  set.Remove(Vgs(3, 2));  // the middle
  EXPECT_THAT(ByLength(set), ElementsAre(Vgs(0, 3), Vgs(5, 5)));
  set.Remove(Vgs(0, 1));  // the front
  set.Remove(Vgs(9, 1));  // the back
  EXPECT_THAT(ByLength(set), ElementsAre(Vgs(1, 2), Vgs(5, 4)));
  set.Remove(Vgs(1, 2));  // all
  EXPECT_THAT(ByLength(set), ElementsAre(Vgs(5, 4)));
  EXPECT_EQ(set.vg_count(), 4u);
  EXPECT_TRUE(set.CheckInvariants());
}

TEST(VgRangeSetTest, FindReturnsTheRangeAroundAGranule) {
  VgRangeSet set;
  set.Insert(Vgs(2, 3));
  set.Insert(Vgs(8, 1));
  EXPECT_EQ(set.Find(VgIndex(1)), std::nullopt);
  EXPECT_THAT(set.Find(VgIndex(2)), Optional(Eq(Vgs(2, 3))));
  EXPECT_THAT(set.Find(VgIndex(4)), Optional(Eq(Vgs(2, 3))));
  EXPECT_EQ(set.Find(VgIndex(5)), std::nullopt);
  EXPECT_THAT(set.Find(VgIndex(8)), Optional(Eq(Vgs(8, 1))));
  EXPECT_EQ(set.Find(VgIndex(9)), std::nullopt);
}

TEST(VgRangeSetTest, BestFitIsTheShortestLongEnoughAndLowestOfEquals) {
  VgRangeSet set;
  set.Insert(Vgs(0, 8));
  set.Insert(Vgs(20, 3));
  set.Insert(Vgs(10, 3));
  set.Insert(Vgs(30, 1));
  EXPECT_THAT(set.BestFit(1), Optional(Eq(Vgs(30, 1))));
  EXPECT_THAT(set.BestFit(2), Optional(Eq(Vgs(10, 3))));
  EXPECT_THAT(set.BestFit(3), Optional(Eq(Vgs(10, 3))));
  EXPECT_THAT(set.BestFit(4), Optional(Eq(Vgs(0, 8))));
  EXPECT_EQ(set.BestFit(9), std::nullopt);
}

TEST(VgRangeSetTest, WalksByLengthMeetEveryRangeOnceInBothDirections) {
  VgRangeSet set;
  set.Insert(Vgs(0, 8));
  set.Insert(Vgs(20, 3));
  set.Insert(Vgs(10, 3));
  set.Insert(Vgs(30, 1));
  EXPECT_THAT(ByLength(set),
              ElementsAre(Vgs(30, 1), Vgs(10, 3), Vgs(20, 3), Vgs(0, 8)));
  std::vector<VgRange> down;
  for (std::optional<VgRange> range = set.Longest(); range.has_value();
       range = set.PreviousByLength(*range)) {
    down.push_back(*range);
  }
  EXPECT_THAT(down, ElementsAre(Vgs(0, 8), Vgs(20, 3), Vgs(10, 3), Vgs(30, 1)));
}

// A walk may take ranges out of the set as it goes.
TEST(VgRangeSetTest, AWalkGoesOnFromARangeThatIsGone) {
  VgRangeSet set;
  set.Insert(Vgs(0, 8));
  set.Insert(Vgs(10, 3));
  set.Insert(Vgs(20, 3));
  set.Remove(Vgs(10, 3));
  EXPECT_THAT(set.NextByLength(Vgs(10, 3)), Optional(Eq(Vgs(20, 3))));
  EXPECT_EQ(set.PreviousByLength(Vgs(10, 3)), std::nullopt);
}

TEST(VgRangeSetTest, LastIsTheRangeAtTheHighestPosition) {
  VgRangeSet set;
  set.Insert(Vgs(0, 8));
  set.Insert(Vgs(20, 1));
  set.Insert(Vgs(10, 3));
  EXPECT_THAT(set.Last(), Optional(Eq(Vgs(20, 1))));
  set.Remove(Vgs(20, 1));
  EXPECT_THAT(set.Last(), Optional(Eq(Vgs(10, 3))));
}

// The set as what it means: each granule by itself.
class RangeModel {
 public:
  static constexpr uint32_t kGranules = 60;

  bool Holds(uint32_t vg) const { return members_.count(vg) > 0; }
  bool HoldsAll(VgRange range) const {
    for (uint32_t i = 0; i < range.count; ++i) {
      if (!Holds((range.first + i).value())) return false;
    }
    return true;
  }
  bool HoldsAny(VgRange range) const {
    for (uint32_t i = 0; i < range.count; ++i) {
      if (Holds((range.first + i).value())) return true;
    }
    return false;
  }
  void Insert(VgRange range) {
    for (uint32_t i = 0; i < range.count; ++i) {
      members_.insert((range.first + i).value());
    }
  }
  void Remove(VgRange range) {
    for (uint32_t i = 0; i < range.count; ++i) {
      members_.erase((range.first + i).value());
    }
  }
  // Maximal runs, by length, then position.
  std::vector<VgRange> RangesByLength() const {
    std::vector<VgRange> ranges;
    for (const uint32_t vg : members_) {
      if (ranges.empty() || ranges.back().end() != VgIndex(vg)) {
        ranges.push_back(Vgs(vg, 0));
      }
      ++ranges.back().count;
    }
    std::sort(ranges.begin(), ranges.end(), [](VgRange a, VgRange b) {
      return std::make_pair(a.count, a.first.value()) <
             std::make_pair(b.count, b.first.value());
    });
    return ranges;
  }

 private:
  std::set<uint32_t> members_;
};

TEST(VgRangeSetTest, RandomChangesGiveTheSameRangesAsASetOfGranules) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SmallRandom random(seed);
    VgRangeSet set;
    RangeModel model;
    for (int step = 0; step < 300; ++step) {
      const uint32_t first = random.Below(RangeModel::kGranules);
      const VgRange range = Vgs(
          first, random.Below(std::min(6u, RangeModel::kGranules - first) + 1));
      if (!model.HoldsAny(range)) {
        set.Insert(range);
        model.Insert(range);
      } else if (model.HoldsAll(range)) {
        set.Remove(range);
        model.Remove(range);
      }
      ASSERT_TRUE(set.CheckInvariants()) << seed << "/" << step;
      const std::vector<VgRange> expected = model.RangesByLength();
      ASSERT_THAT(ByLength(set), ElementsAreArray(expected));
      ASSERT_EQ(set.range_count(), expected.size());
      uint32_t vg_count = 0;
      for (const VgRange& part : expected) vg_count += part.count;
      ASSERT_EQ(set.vg_count(), vg_count);
      for (uint32_t vg = 0; vg < RangeModel::kGranules; ++vg) {
        const std::optional<VgRange> found = set.Find(VgIndex(vg));
        ASSERT_EQ(found.has_value(), model.Holds(vg));
        if (found.has_value()) {
          ASSERT_TRUE(found->contains(VgIndex(vg)));
        }
      }
      const uint32_t wanted = random.Between(1, 8);
      const auto fit =
          std::find_if(expected.begin(), expected.end(),
                       [wanted](VgRange part) { return part.count >= wanted; });
      ASSERT_EQ(set.BestFit(wanted), fit == expected.end()
                                         ? std::nullopt
                                         : std::optional<VgRange>(*fit));
    }
  }
}

}  // namespace
}  // namespace firn::testing

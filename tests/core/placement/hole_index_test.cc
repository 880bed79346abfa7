// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/hole_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/core/placement/granule_books.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

// Holes that a test sets, and a count of how often they were measured.
class HoleIndexTest : public ::testing::Test {
 protected:
  void SetHole(uint32_t granule, uint32_t quanta) {
    if (granule >= holes_.size()) {
      holes_.resize(granule + 1, 0);
      index_.Resize(granule + 1);
    }
    const bool is_larger = quanta > holes_[granule];
    holes_[granule] = quanta;
    if (is_larger) index_.MarkChanged(GranuleId(granule));
  }
  GranuleId Find(uint32_t quanta, HoleKind kind = HoleKind::Aligned(1)) {
    measured_ = 0;
    return index_.Find(kind, quanta, [this](GranuleId granule, HoleKind) {
      ++measured_;
      return holes_[granule.value()];
    });
  }

  HoleIndex index_;
  std::vector<uint32_t> holes_;
  uint32_t measured_ = 0;
};

TEST_F(HoleIndexTest, NothingIsFoundWithoutGranules) {
  EXPECT_TRUE(Find(1).is_none());
}

TEST_F(HoleIndexTest, TheSmallestHoleThatIsLargeEnoughIsFound) {
  SetHole(0, 30);
  SetHole(1, 10);
  SetHole(2, 20);
  EXPECT_EQ(Find(10), GranuleId(1));
  EXPECT_EQ(Find(11), GranuleId(2));
  EXPECT_EQ(Find(21), GranuleId(0));
  EXPECT_TRUE(Find(31).is_none());
}

TEST_F(HoleIndexTest, HolesThatGrewOrCameAfterASearchAreFound) {
  SetHole(0, 5);
  EXPECT_TRUE(Find(10).is_none());
  SetHole(0, 10);
  EXPECT_EQ(Find(10), GranuleId(0));
  SetHole(3, 40);
  EXPECT_EQ(Find(20), GranuleId(3));
  EXPECT_EQ(Find(20, HoleKind::Top()), GranuleId(3));
}

TEST_F(HoleIndexTest, HolesThatShrankUnmarkedAreNotFound) {
  SetHole(0, 10);
  SetHole(1, 20);
  EXPECT_EQ(Find(8), GranuleId(0));
  SetHole(0, 7);
  EXPECT_EQ(Find(8), GranuleId(1));
  SetHole(1, 0);
  EXPECT_TRUE(Find(8).is_none());
  EXPECT_EQ(Find(7), GranuleId(0));
}

TEST_F(HoleIndexTest, AKindIsMeasuredByItself) {
  index_.Resize(2);
  const auto measure = [](GranuleId granule, HoleKind kind) {
    if (kind.is_bottom()) return granule.value() == 0 ? 50u : 1u;
    if (kind.is_top()) return granule.value() == 0 ? 1u : 50u;
    return kind.alignment_quanta();
  };
  EXPECT_EQ(index_.Find(HoleKind::Bottom(), 2, measure), GranuleId(0));
  EXPECT_EQ(index_.Find(HoleKind::Top(), 2, measure), GranuleId(1));
  EXPECT_TRUE(index_.Find(HoleKind::Aligned(8), 9, measure).is_none());
  EXPECT_EQ(index_.Find(HoleKind::Aligned(16), 9, measure), GranuleId(0));
}

TEST_F(HoleIndexTest, OnlyTheFirstSearchThatFailsMeasuresAllGranules) {
  constexpr uint32_t kGranules = 100'000;
  for (uint32_t i = 0; i < kGranules; ++i) SetHole(i, 100 + i % 100);
  EXPECT_TRUE(Find(200).is_none());
  EXPECT_EQ(measured_, kGranules);
  EXPECT_TRUE(Find(200).is_none());
  EXPECT_EQ(measured_, 0u);
  // What changed is measured once, however often it did.
  for (uint32_t quanta = 150; quanta < 160; ++quanta) SetHole(7, quanta);
  EXPECT_TRUE(Find(200).is_none());
  EXPECT_EQ(measured_, 1u);
}

TEST_F(HoleIndexTest, RandomSearchesAgreeWithAWalk) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SmallRandom random(seed);
    index_ = HoleIndex();
    holes_.clear();
    for (int step = 0; step < 2000; ++step) {
      SetHole(random.Below(30), random.Below(100));
      if (!random.OneIn(3)) continue;
      const uint32_t quanta = random.Between(1, 100);
      const bool expected =
          std::any_of(holes_.begin(), holes_.end(),
                      [quanta](uint32_t hole) { return hole >= quanta; });
      const GranuleId found =
          Find(quanta, HoleKind::FromIndex(random.Below(HoleKind::kCount)));
      ASSERT_EQ(!found.is_none(), expected)
          << "seed " << seed << ", step " << step;
      if (expected) {
        ASSERT_GE(holes_[found.value()], quanta);
      }
    }
  }
}

// Books over granules of 64 quanta, each with one window, live but for its
// first quanta, at places that no alignment of more than 1 suits.
TEST(HoleIndexOfBooksTest, NoHoleIsMeasuredAgainThatDidNotChange) {
  constexpr uint32_t kGranules = 1000;
  GranuleTable table(1 << 16);
  GranuleBooks books(64, 4, &table, /*arena=*/0);
  for (uint32_t i = 0; i < kGranules; ++i) {
    books.Attach(VgIndex(i), GranuleId(i), /*of_large_run=*/false);
    books.Activate(VgIndex(i), VgRole::kWindow, Extent(0, 64), 0);
    books.AddLive(GranuleId(i), Extent(0, 17));
    books.AddLive(GranuleId(i), Extent(32, 64));
  }
  // 15 quanta are free everywhere, none of them a multiple of 16.
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(books.FindHole(1, 16).granule.is_none());
    EXPECT_TRUE(books.FindHole(16, 1).granule.is_none());
    EXPECT_TRUE(books.FindEdgeHole(1, false).granule.is_none());
    EXPECT_EQ(books.FindHole(15, 1).interval, Extent(17, 32));
  }
  books.RemoveLive(GranuleId(500), Extent(16, 17));
  EXPECT_EQ(books.FindHole(1, 16).granule, GranuleId(500));
  EXPECT_EQ(books.FindHole(16, 1).interval, Extent(16, 32));
  books.RemoveLive(GranuleId(700), Extent(63, 64));
  EXPECT_EQ(books.FindEdgeHole(1, false).granule, GranuleId(700));
  EXPECT_TRUE(books.FindEdgeHole(1, true).granule.is_none());
}

}  // namespace
}  // namespace firn::testing

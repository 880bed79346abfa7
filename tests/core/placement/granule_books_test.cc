// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/granule_books.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kQuanta = 256;
constexpr uint32_t kMaxMappings = 4;

class GranuleBooksTest : public ::testing::Test {
 protected:
  void TearDown() override { FIRN_EXPECT_OK(books_.CheckInvariants()); }

  VgIndex Spare(uint32_t granule) {
    const VgIndex vg(next_vg_++);
    books_.Attach(vg, GranuleId(granule), /*of_large_run=*/false);
    return vg;
  }
  // A virtual granule on `granule` with a window that is live throughout.
  VgIndex Window(uint32_t granule, OffsetInterval window) {
    return Window(granule, window, window);
  }
  VgIndex Window(uint32_t granule, OffsetInterval window, OffsetInterval live) {
    const VgIndex vg = Spare(granule);
    books_.Activate(vg, VgRole::kWindow, window, /*owner=*/0);
    books_.AddLive(GranuleId(granule), live);
    return vg;
  }
  static void ExpectGap(const Gap& gap, uint32_t granule,
                        OffsetInterval interval) {
    EXPECT_EQ(gap.granule, GranuleId(granule));
    EXPECT_EQ(gap.interval, interval);
  }

  GranuleTable table_{1 << 16};
  GranuleBooks books_{kQuanta, kMaxMappings, &table_, /*arena=*/0};
  uint32_t next_vg_ = 0;
};

// --- Mappings and roles ---

TEST_F(GranuleBooksTest, WhatWasNeverMappedIsUnmapped) {
  EXPECT_EQ(books_.vg(VgIndex(7)).role, VgRole::kUnmapped);
  EXPECT_TRUE(books_.vg(VgIndex(7)).granule.is_none());
  EXPECT_EQ(books_.used_granules(), 0u);
  EXPECT_THAT(books_.empty_granules(), IsEmpty());
}

TEST_F(GranuleBooksTest, AnAttachedVirtualGranuleIsASpareOfAnEmptyGranule) {
  books_.Attach(VgIndex(5), GranuleId(2), /*of_large_run=*/true);
  EXPECT_EQ(books_.vg(VgIndex(5)).role, VgRole::kSpare);
  EXPECT_EQ(books_.vg(VgIndex(5)).granule, GranuleId(2));
  EXPECT_TRUE(books_.vg(VgIndex(5)).of_large_run);
  EXPECT_EQ(books_.granule(GranuleId(2)).mappings, 1u);
  EXPECT_EQ(books_.granule(GranuleId(2)).spares, 1u);
  EXPECT_EQ(books_.SpareOf(GranuleId(2)), VgIndex(5));
  EXPECT_THAT(books_.empty_granules(), ElementsAre(GranuleId(2)));
  EXPECT_EQ(books_.used_granules(), 0u);
  EXPECT_EQ(books_.live_vgs(), 0u);
}

TEST_F(GranuleBooksTest, EmptyGranulesAreListedNewestLast) {
  Spare(3);
  Spare(1);
  Spare(2);
  Spare(1);
  EXPECT_THAT(books_.empty_granules(),
              ElementsAre(GranuleId(3), GranuleId(1), GranuleId(2)));
}

TEST_F(GranuleBooksTest, ADetachedVirtualGranuleIsUnmappedAgain) {
  const VgIndex first = Spare(2);
  const VgIndex second = Spare(2);
  books_.Detach(first);
  EXPECT_EQ(books_.vg(first).role, VgRole::kUnmapped);
  EXPECT_EQ(books_.granule(GranuleId(2)).mappings, 1u);
  EXPECT_EQ(books_.SpareOf(GranuleId(2)), second);
  EXPECT_THAT(books_.empty_granules(), ElementsAre(GranuleId(2)));
  books_.Detach(second);
  EXPECT_THAT(books_.empty_granules(), IsEmpty());
  EXPECT_TRUE(books_.SpareOf(GranuleId(2)).is_none());
}

TEST_F(GranuleBooksTest, AWindowWithLiveBytesUsesItsGranule) {
  const VgIndex vg = Spare(0);
  books_.Activate(vg, VgRole::kWindow, Extent(16, 32), /*owner=*/9);
  books_.AddLive(GranuleId(0), Extent(16, 20));
  EXPECT_EQ(books_.vg(vg).role, VgRole::kWindow);
  EXPECT_EQ(books_.vg(vg).window, Extent(16, 32));
  EXPECT_EQ(books_.vg(vg).owner, 9u);
  EXPECT_EQ(books_.used_granules(), 1u);
  EXPECT_EQ(books_.partial_granules(), 1u);
  EXPECT_EQ(books_.full_granules(), 0u);
  EXPECT_EQ(books_.live_vgs(), 1u);
  EXPECT_EQ(books_.granule(GranuleId(0)).live_quanta, 4u);
  EXPECT_EQ(books_.granule(GranuleId(0)).largest_gap_quanta, kQuanta - 32);
  EXPECT_THAT(books_.empty_granules(), IsEmpty());
  EXPECT_TRUE(books_.SpareOf(GranuleId(0)).is_none());
}

TEST_F(GranuleBooksTest, AWindowWithoutLiveBytesBecomesASpareAgain) {
  const VgIndex vg = Window(0, Extent(16, 32), Extent(16, 20));
  books_.AddLive(GranuleId(0), Extent(20, 22));
  books_.RemoveLive(GranuleId(0), Extent(16, 20));
  EXPECT_EQ(books_.used_granules(), 1u);
  books_.RemoveLive(GranuleId(0), Extent(20, 22));
  books_.Deactivate(vg);
  EXPECT_EQ(books_.used_granules(), 0u);
  EXPECT_EQ(books_.live_vgs(), 0u);
  EXPECT_EQ(books_.SpareOf(GranuleId(0)), vg);
  EXPECT_EQ(books_.vg(vg).window.quanta(), 0u);
  EXPECT_THAT(books_.empty_granules(), ElementsAre(GranuleId(0)));
}

TEST_F(GranuleBooksTest, SparesComeFirstAmongTheMappingsOfAGranule) {
  const VgIndex window = Window(0, Extent(0, 8));
  const VgIndex first = Spare(0);
  const VgIndex other = Window(0, Extent(8, 16));
  const VgIndex second = Spare(0);
  std::vector<VgIndex> list;
  for (VgIndex at = books_.granule(GranuleId(0)).first; !at.is_none();
       at = books_.vg(at).next) {
    list.push_back(at);
  }
  ASSERT_EQ(list.size(), 4u);
  const std::vector<VgIndex> front(list.begin(), list.begin() + 2);
  const std::vector<VgIndex> back(list.begin() + 2, list.end());
  EXPECT_THAT(front, ::testing::UnorderedElementsAre(first, second));
  EXPECT_THAT(back, ::testing::UnorderedElementsAre(window, other));
}

TEST_F(GranuleBooksTest, AnInteriorFillsItsGranule) {
  const VgIndex vg = Spare(0);
  books_.Activate(vg, VgRole::kInterior, OffsetInterval(), /*owner=*/3);
  books_.FillInterior(vg);
  EXPECT_EQ(books_.used_granules(), 1u);
  EXPECT_EQ(books_.full_granules(), 1u);
  EXPECT_EQ(books_.partial_granules(), 0u);
  EXPECT_EQ(books_.granule(GranuleId(0)).live_quanta, kQuanta);
  EXPECT_FALSE(books_.IsUnreserved(GranuleId(0), Extent(0, 1)));
  FIRN_EXPECT_OK(books_.CheckInvariants());
  books_.EmptyInterior(vg);
  books_.Deactivate(vg);
  EXPECT_EQ(books_.used_granules(), 0u);
  EXPECT_EQ(books_.full_granules(), 0u);
  EXPECT_THAT(books_.empty_granules(), ElementsAre(GranuleId(0)));
}

TEST_F(GranuleBooksTest, EmptyRunsAreNoEmptyGranules) {
  const VgIndex vg = Spare(0);
  Spare(1);
  books_.SetEmptyRun(vg, true);
  EXPECT_EQ(books_.vg(vg).role, VgRole::kEmptyRun);
  EXPECT_THAT(books_.empty_granules(), ElementsAre(GranuleId(1)));
  EXPECT_TRUE(books_.SpareOf(GranuleId(0)).is_none());
  FIRN_EXPECT_OK(books_.CheckInvariants());
  books_.SetEmptyRun(vg, false);
  EXPECT_EQ(books_.SpareOf(GranuleId(0)), vg);
  EXPECT_THAT(books_.empty_granules(), ElementsAre(GranuleId(1), GranuleId(0)));
  books_.SetEmptyRun(vg, true);
  books_.Detach(vg);
  EXPECT_EQ(books_.vg(vg).role, VgRole::kUnmapped);
}

TEST_F(GranuleBooksTest, BlockedWindowsAreCountedByGranule) {
  Window(0, Extent(0, 8));
  Window(1, Extent(0, 8));
  books_.CountBlockedWindow(GranuleId(0), 1);
  books_.CountBlockedWindow(GranuleId(0), 1);
  books_.CountBlockedWindow(GranuleId(0), -1);
  EXPECT_EQ(books_.granule(GranuleId(0)).blocked_windows, 1u);
  EXPECT_EQ(books_.granule(GranuleId(1)).blocked_windows, 0u);
}

TEST_F(GranuleBooksTest, MoveTakesWindowAndLiveExtentsToAnotherGranule) {
  const VgIndex vg = Window(0, Extent(0, 32), Extent(0, 4));
  books_.AddLive(GranuleId(0), Extent(10, 12));
  Window(1, Extent(32, 64));
  const std::vector<OffsetInterval> extents = {Extent(0, 4), Extent(10, 12)};
  books_.Move(vg, GranuleId(1), extents.data(), extents.size());
  EXPECT_EQ(books_.vg(vg).granule, GranuleId(1));
  EXPECT_EQ(books_.vg(vg).role, VgRole::kWindow);
  EXPECT_EQ(books_.vg(vg).window, Extent(0, 32));
  EXPECT_EQ(books_.granule(GranuleId(0)).mappings, 0u);
  EXPECT_EQ(books_.granule(GranuleId(0)).live_quanta, 0u);
  EXPECT_EQ(books_.granule(GranuleId(1)).mappings, 2u);
  EXPECT_EQ(books_.granule(GranuleId(1)).live_quanta, 38u);
  EXPECT_TRUE(books_.granule(GranuleId(1)).occupancy.AllIn(Extent(10, 12)));
  EXPECT_FALSE(books_.granule(GranuleId(1)).occupancy.AnyIn(Extent(4, 10)));
  EXPECT_EQ(books_.used_granules(), 1u);
  EXPECT_EQ(books_.live_vgs(), 2u);
  EXPECT_EQ(books_.granule(GranuleId(1)).largest_gap_quanta, kQuanta - 64);
  // Nothing is mapped to it: it belongs to the store now.
  EXPECT_THAT(books_.empty_granules(), IsEmpty());
}

TEST_F(GranuleBooksTest, SparesThatAMoveLeavesBehindMakeAnEmptyGranule) {
  const VgIndex vg = Window(0, Extent(0, 32));
  const VgIndex spare = Spare(0);
  Window(1, Extent(32, 64));
  const OffsetInterval extent = Extent(0, 32);
  books_.Move(vg, GranuleId(1), &extent, 1);
  EXPECT_THAT(books_.empty_granules(), ElementsAre(GranuleId(0)));
  EXPECT_EQ(books_.SpareOf(GranuleId(0)), spare);
}

// After a move windows may overlap, live bytes may not.
TEST_F(GranuleBooksTest, GapsLieOutsideAllWindowsEvenOverlappingOnes) {
  const VgIndex vg = Window(0, Extent(0, 128), Extent(64, 65));
  Window(1, Extent(32, 64), Extent(32, 40));
  Window(1, Extent(200, 210));
  const OffsetInterval extent = Extent(64, 65);
  books_.Move(vg, GranuleId(1), &extent, 1);
  EXPECT_EQ(books_.granule(GranuleId(1)).largest_gap_quanta, 72u);
  ExpectGap(books_.FindGap(60, 1), 1, Extent(128, 188));
}

TEST_F(GranuleBooksTest, InvariantsFailForAWindowWithoutLiveBytes) {
  const VgIndex vg = Spare(0);
  books_.Activate(vg, VgRole::kWindow, Extent(0, 8), 0);
  EXPECT_THAT(books_.CheckInvariants(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("nothing live")));
  books_.AddLive(GranuleId(0), Extent(0, 1));
}

// --- Searches ---

TEST_F(GranuleBooksTest, OnlyPartlyFilledGranulesHaveGaps) {
  Spare(0);  // empty
  const VgIndex interior = Spare(1);
  books_.Activate(interior, VgRole::kInterior, OffsetInterval(), 0);
  books_.FillInterior(interior);
  EXPECT_TRUE(books_.FindGap(1, 1).granule.is_none());
  EXPECT_TRUE(books_.FindEdgeGap(1, false).granule.is_none());
  EXPECT_TRUE(books_.FindHole(1, 1).granule.is_none());
  EXPECT_TRUE(books_.FindEdgeHole(1, false).granule.is_none());
  Window(2, Extent(0, 255));
  ExpectGap(books_.FindGap(1, 1), 2, Extent(255, 256));
  EXPECT_TRUE(books_.FindGap(2, 1).granule.is_none());
}

TEST_F(GranuleBooksTest, FindGapTakesTheGranuleAndTheGapThatFitBest) {
  Window(0, Extent(0, 100));
  Window(1, Extent(0, 216));
  Window(2, Extent(0, 20));
  ExpectGap(books_.FindGap(30, 1), 1, Extent(216, 246));
  ExpectGap(books_.FindGap(41, 1), 0, Extent(100, 141));
  ExpectGap(books_.FindGap(200, 1), 2, Extent(20, 220));
  // Within a granule: gaps of 30 and of 166.
  Window(1, Extent(220, 256));
  Window(2, Extent(50, 90));
  ExpectGap(books_.FindGap(160, 1), 2, Extent(90, 250));
  Window(0, Extent(100, 256));  // full
  ExpectGap(books_.FindGap(25, 1), 2, Extent(20, 45));
}

TEST_F(GranuleBooksTest, FindGapStartsAtMultiplesOfTheAlignment) {
  Window(0, Extent(0, 3));
  Window(0, Extent(20, 256));
  ExpectGap(books_.FindGap(4, 1), 0, Extent(3, 7));
  ExpectGap(books_.FindGap(4, 4), 0, Extent(4, 8));
  ExpectGap(books_.FindGap(4, 16), 0, Extent(16, 20));
  EXPECT_TRUE(books_.FindGap(5, 16).granule.is_none());
  EXPECT_TRUE(books_.FindGap(1, 32).granule.is_none());
}

TEST_F(GranuleBooksTest, AGapThatASpareTakesUpComesBeforeATighterOne) {
  Window(0, Extent(0, 100));
  Window(1, Extent(0, 216));
  ExpectGap(books_.FindGap(30, 1), 1, Extent(216, 246));
  Spare(0);
  ExpectGap(books_.FindGap(30, 1), 0, Extent(100, 130));
  ExpectGap(books_.FindGap(40, 1), 0, Extent(100, 140));
}

TEST_F(GranuleBooksTest, AGranuleWithAllItsMappingsNeedsASpare) {
  for (uint32_t i = 0; i < kMaxMappings; ++i) {
    Window(0, Extent(i * 16, i * 16 + 16));
  }
  EXPECT_TRUE(books_.FindGap(8, 1).granule.is_none());
  EXPECT_TRUE(books_.FindEdgeGap(8, false).granule.is_none());
  EXPECT_TRUE(books_.FindHole(8, 1).granule.is_none());
  EXPECT_TRUE(books_.FindEdgeHole(8, false).granule.is_none());
  const VgIndex vg = books_.granule(GranuleId(0)).first;
  const OffsetInterval window = books_.vg(vg).window;
  books_.RemoveLive(GranuleId(0), window);
  books_.Deactivate(vg);
  EXPECT_FALSE(books_.FindGap(8, 1).granule.is_none());
  EXPECT_FALSE(books_.FindHole(8, 1).granule.is_none());
  // Head and tail of a large block bring a mapping of their own.
  EXPECT_TRUE(books_.FindEdgeGap(8, false).granule.is_none());
  EXPECT_TRUE(books_.FindEdgeHole(8, false).granule.is_none());
}

TEST_F(GranuleBooksTest, EdgeGapsAreAtTheBottomOrTheTop) {
  Window(0, Extent(10, 240));
  ExpectGap(books_.FindEdgeGap(10, false), 0, Extent(0, 10));
  ExpectGap(books_.FindEdgeGap(16, false), 0, Extent(240, 256));
  EXPECT_TRUE(books_.FindEdgeGap(16, true).granule.is_none());
  EXPECT_TRUE(books_.FindEdgeGap(17, false).granule.is_none());
  ExpectGap(books_.FindEdgeGap(8, true), 0, Extent(0, 8));
  // A gap in the middle is none at the edge.
  Window(1, Extent(0, 4));
  Window(1, Extent(200, 256));
  EXPECT_TRUE(books_.FindEdgeGap(20, false).granule.is_none());
}

TEST_F(GranuleBooksTest, EdgeGapsOfGranulesWithSparesAreFoundToo) {
  Window(0, Extent(10, 256));
  Spare(0);
  ExpectGap(books_.FindEdgeGap(10, true), 0, Extent(0, 10));
}

TEST_F(GranuleBooksTest, HolesLieWithinWindows) {
  Window(0, Extent(0, 256), Extent(100, 200));
  EXPECT_TRUE(books_.FindGap(1, 1).granule.is_none());
  EXPECT_TRUE(books_.FindEdgeGap(1, false).granule.is_none());
  ExpectGap(books_.FindHole(50, 1), 0, Extent(0, 50));
  ExpectGap(books_.FindEdgeHole(100, true), 0, Extent(0, 100));
  ExpectGap(books_.FindEdgeHole(56, false), 0, Extent(0, 56));
  EXPECT_TRUE(books_.FindEdgeHole(101, false).granule.is_none());
  books_.AddLive(GranuleId(0), Extent(0, 60));
  ExpectGap(books_.FindEdgeHole(56, false), 0, Extent(200, 256));
  EXPECT_TRUE(books_.FindEdgeHole(56, true).granule.is_none());
  ExpectGap(books_.FindHole(32, 64), 0, Extent(64, 96));
  ExpectGap(books_.FindHole(40, 1), 0, Extent(60, 100));
  ExpectGap(books_.FindHole(50, 8), 0, Extent(200, 250));
  EXPECT_TRUE(books_.FindHole(50, 64).granule.is_none());
  EXPECT_TRUE(books_.FindHole(57, 1).granule.is_none());
}

TEST_F(GranuleBooksTest, WhatNoWindowTouchesIsUnreserved) {
  Window(0, Extent(10, 20), Extent(12, 13));
  Spare(0);
  const GranuleId granule(0);
  EXPECT_TRUE(books_.IsUnreserved(granule, Extent(0, 10)));
  EXPECT_FALSE(books_.IsUnreserved(granule, Extent(0, 11)));
  EXPECT_FALSE(books_.IsUnreserved(granule, Extent(14, 16)));
  EXPECT_FALSE(books_.IsUnreserved(granule, Extent(19, 30)));
  EXPECT_TRUE(books_.IsUnreserved(granule, Extent(20, 256)));
}

// Gaps of 2566 quanta that start one behind a multiple of 2048 hold no 520
// quanta at such a multiple; the half of a granule does.
TEST(GranuleBooksSearchTest, ManyGapsThatDoNotAlignDoNotHideOneThatFits) {
  GranuleTable table(1 << 16);
  GranuleBooks books(4096, kMaxMappings, &table, /*arena=*/0);
  uint32_t next_vg = 0;
  const auto window = [&books, &next_vg](uint32_t granule,
                                         OffsetInterval interval) {
    const VgIndex vg(next_vg++);
    books.Attach(vg, GranuleId(granule), false);
    books.Activate(vg, VgRole::kWindow, interval, 0);
    books.AddLive(GranuleId(granule), interval);
  };
  window(0, Extent(0, 1000));  // a gap of 3096, aligned at 2048
  ASSERT_EQ(books.FindGap(520, 2048).granule, GranuleId(0));
  for (uint32_t granule = 1; granule <= 20; ++granule) {
    window(granule, Extent(0, 1));
    window(granule, Extent(2567, 4096));
  }
  const Gap gap = books.FindGap(520, 2048);
  EXPECT_EQ(gap.granule, GranuleId(0));
  EXPECT_EQ(gap.interval, Extent(2048, 2568));
}

}  // namespace
}  // namespace firn::testing

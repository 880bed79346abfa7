// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/occupancy.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

TEST(OccupancyTest, OneThatWasNotGivenAWidthIsEmpty) {
  EXPECT_TRUE(Occupancy().empty());
  // Empty means without quanta, not without live ones.
  EXPECT_FALSE(Occupancy(1).empty());
}

TEST(OccupancyTest, NothingIsSetAtFirst) {
  const Occupancy occupancy(200);
  EXPECT_FALSE(occupancy.AnyIn(Extent(0, 200)));
  EXPECT_EQ(occupancy.FindClearRun(200, 0, 200), Extent(0, 200));
}

TEST(OccupancyTest, SetAndClearConcernTheirExtentAlone) {
  // Within a word, to its end, across words, whole words.
  for (const OffsetInterval extent :
       {Extent(3, 9), Extent(60, 64), Extent(64, 65), Extent(60, 70),
        Extent(0, 64), Extent(64, 192), Extent(63, 193), Extent(0, 256)}) {
    SCOPED_TRACE(::testing::PrintToString(extent));
    Occupancy occupancy(256);
    occupancy.Set(extent);
    for (uint32_t quantum = 0; quantum < 256; ++quantum) {
      const bool inside = extent.lo <= quantum && quantum < extent.hi;
      EXPECT_EQ(occupancy.AnyIn(Extent(quantum, quantum + 1)), inside);
      EXPECT_EQ(occupancy.AllIn(Extent(quantum, quantum + 1)), inside);
    }
    occupancy.Set(Extent(0, 256));
    occupancy.Clear(extent);
    for (uint32_t quantum = 0; quantum < 256; ++quantum) {
      const bool inside = extent.lo <= quantum && quantum < extent.hi;
      EXPECT_EQ(occupancy.AnyIn(Extent(quantum, quantum + 1)), !inside);
    }
  }
}

TEST(OccupancyTest, AnyAndAllDifferWhereAPartIsSet) {
  Occupancy occupancy(256);
  occupancy.Set(Extent(100, 140));
  EXPECT_TRUE(occupancy.AllIn(Extent(100, 140)));
  EXPECT_FALSE(occupancy.AllIn(Extent(99, 140)));
  EXPECT_FALSE(occupancy.AllIn(Extent(100, 141)));
  EXPECT_TRUE(occupancy.AnyIn(Extent(0, 101)));
  EXPECT_FALSE(occupancy.AnyIn(Extent(0, 100)));
  EXPECT_TRUE(occupancy.AnyIn(Extent(139, 256)));
  EXPECT_FALSE(occupancy.AnyIn(Extent(140, 256)));
}

TEST(OccupancyTest, AnEmptyExtentHasNoneAndAll) {
  Occupancy occupancy(128);
  occupancy.Set(Extent(0, 128));
  EXPECT_FALSE(occupancy.AnyIn(Extent(64, 64)));
  occupancy.Clear(Extent(0, 128));
  EXPECT_TRUE(occupancy.AllIn(Extent(64, 64)));
  occupancy.Set(Extent(5, 5));
  EXPECT_FALSE(occupancy.AnyIn(Extent(0, 128)));
}

TEST(OccupancyTest, FindClearRunTakesTheFirstThatIsLongEnough) {
  Occupancy occupancy(256);
  occupancy.Set(Extent(0, 10));
  occupancy.Set(Extent(14, 60));
  occupancy.Set(Extent(70, 250));
  EXPECT_EQ(occupancy.FindClearRun(1, 0, 256), Extent(10, 11));
  EXPECT_EQ(occupancy.FindClearRun(4, 0, 256), Extent(10, 14));
  EXPECT_EQ(occupancy.FindClearRun(5, 0, 256), Extent(60, 65));
  EXPECT_EQ(occupancy.FindClearRun(10, 0, 256), Extent(60, 70));
  EXPECT_EQ(occupancy.FindClearRun(11, 0, 256).quanta(), 0u);
  // From the middle of a run on.
  EXPECT_EQ(occupancy.FindClearRun(3, 12, 256), Extent(60, 63));
  EXPECT_EQ(occupancy.FindClearRun(2, 12, 256), Extent(12, 14));
  EXPECT_EQ(occupancy.FindClearRun(6, 100, 256), Extent(250, 256));
}

TEST(OccupancyTest, FindClearRunEndsAtTo) {
  const Occupancy occupancy(256);
  EXPECT_EQ(occupancy.FindClearRun(10, 5, 15), Extent(5, 15));
  EXPECT_EQ(occupancy.FindClearRun(11, 5, 15).quanta(), 0u);
  EXPECT_EQ(occupancy.FindClearRun(1, 15, 15).quanta(), 0u);
}

// Bits behind the last quantum of a width that is no multiple of a word.
TEST(OccupancyTest, NothingIsFoundBehindTheLastQuantum) {
  const Occupancy occupancy(100);
  EXPECT_EQ(occupancy.FindClearRun(100, 0, 100), Extent(0, 100));
  EXPECT_EQ(occupancy.FindClearRun(101, 0, 100).quanta(), 0u);
}

TEST(OccupancyTest, ClearRunsReachToTheNextSetQuantumOrTheEnd) {
  Occupancy occupancy(200);
  EXPECT_EQ(occupancy.ClearRunFrom(0, 200), 200u);
  EXPECT_EQ(occupancy.ClearRunUpTo(200), 200u);
  occupancy.Set(Extent(70, 130));
  EXPECT_EQ(occupancy.ClearRunFrom(3, 200), 67u);
  EXPECT_EQ(occupancy.ClearRunFrom(3, 69), 66u);
  EXPECT_EQ(occupancy.ClearRunFrom(100, 200), 0u);
  EXPECT_EQ(occupancy.ClearRunFrom(200, 200), 0u);
  EXPECT_EQ(occupancy.ClearRunFrom(256, 200), 0u);
  EXPECT_EQ(occupancy.ClearRunUpTo(200), 70u);
  EXPECT_EQ(occupancy.ClearRunUpTo(130), 0u);
  EXPECT_EQ(occupancy.ClearRunUpTo(64), 64u);
}

OffsetInterval FindClearRunSlowly(const std::vector<bool>& bits,
                                  uint32_t quanta, uint32_t from, uint32_t to) {
  for (uint32_t lo = from; lo + quanta <= to; ++lo) {
    if (std::find(bits.begin() + lo, bits.begin() + lo + quanta, true) ==
        bits.begin() + lo + quanta) {
      return Extent(lo, lo + quanta);
    }
  }
  return Extent(0, 0);
}

TEST(OccupancyTest, RandomSetsAgreeWithOneBitAtATime) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SmallRandom random(seed);
    const uint32_t quanta = random.Between(1, 300);
    Occupancy occupancy(quanta);
    std::vector<bool> bits(quanta, false);
    const auto random_extent = [&random, quanta] {
      const uint32_t lo = random.Below(quanta + 1);
      return Extent(lo, random.Between(lo, std::min(quanta, lo + 90)));
    };
    for (int step = 0; step < 60; ++step) {
      const OffsetInterval extent = random_extent();
      const bool set = random.OneIn(2);
      if (set) {
        occupancy.Set(extent);
      } else {
        occupancy.Clear(extent);
      }
      std::fill(bits.begin() + extent.lo, bits.begin() + extent.hi, set);

      const OffsetInterval asked = random_extent();
      const auto first = bits.begin() + asked.lo;
      const auto last = bits.begin() + asked.hi;
      ASSERT_EQ(occupancy.AnyIn(asked), std::find(first, last, true) != last);
      ASSERT_EQ(occupancy.AllIn(asked), std::find(first, last, false) == last);
      const uint32_t wanted = random.Between(1, 40);
      ASSERT_EQ(occupancy.FindClearRun(wanted, asked.lo, asked.hi),
                FindClearRunSlowly(bits, wanted, asked.lo, asked.hi))
          << "seed " << seed << ", " << wanted << " in "
          << ::testing::PrintToString(asked);
      ASSERT_EQ(occupancy.ClearRunFrom(asked.lo, asked.hi),
                std::find(first, last, true) - first);
      const auto from_end = bits.rbegin() + (quanta - asked.hi);
      ASSERT_EQ(occupancy.ClearRunUpTo(asked.hi),
                std::find(from_end, bits.rend(), true) - from_end);
    }
  }
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of a ColumnMatrix against a comparison quantum by quantum.

#include "firn/compaction/planner_columns.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

std::vector<OffsetInterval> RandomExtents(SmallRandom* random,
                                          uint32_t quanta) {
  std::vector<OffsetInterval> extents;
  const uint32_t most = random->OneIn(2) ? quanta : std::max(1u, quanta / 20);
  for (uint32_t at = random->Below(quanta); at < quanta;) {
    const uint32_t hi = std::min(quanta, at + random->Between(1, most));
    extents.push_back(Extent(at, hi));
    at = hi + random->Between(1, quanta);
  }
  return extents;
}

bool Overlap(const std::vector<OffsetInterval>& a,
             const std::vector<OffsetInterval>& b) {
  for (const OffsetInterval& x : a) {
    for (const OffsetInterval& y : b) {
      if (x.lo < y.hi && y.lo < x.hi) return true;
    }
  }
  return false;
}

class ColumnMatrixTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ColumnMatrixTest, RowsTellWhetherExtentsOverlapButForPartsOfColumns) {
  const uint32_t quanta = GetParam();
  uint32_t fits = 0;
  uint32_t doubtful = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SmallRandom random(seed);
    const std::vector<OffsetInterval> host = RandomExtents(&random, quanta);
    const std::vector<OffsetInterval> other = RandomExtents(&random, quanta);
    ColumnMatrix by_rows(quanta, 1);
    ColumnMatrix at_once(quanta, 1);
    RowList rows;
    by_rows.AppendRows(host, &rows);
    for (const uint32_t row : rows.touched) by_rows.Touch(0, row);
    at_once.TouchAll(0, host);

    RowList wanted;
    by_rows.AppendRows(other, &wanted);
    RankSet all(1);
    all.Set(0);
    const bool clear =
        by_rows.FindClear(wanted.must_be_clear, all, {0, 1}) == 0;
    ASSERT_EQ(at_once.FindClear(wanted.must_be_clear, all, {0, 1}) == 0, clear)
        << seed;
    const bool is_doubtful = std::any_of(
        wanted.part.begin(), wanted.part.end(), [&](uint32_t column) {
          EXPECT_EQ(by_rows.IsTouched(0, column), at_once.IsTouched(0, column));
          return by_rows.IsTouched(0, column);
        });
    if (!clear) {
      ASSERT_TRUE(Overlap(host, other)) << seed;
    } else if (is_doubtful) {
      ++doubtful;
    } else {
      ASSERT_FALSE(Overlap(host, other)) << seed;
      ++fits;
    }
  }
  EXPECT_GT(fits, 20u);
  // Where a column is a quantum there are no parts of one.
  EXPECT_EQ(doubtful > 0, quanta > 512);
}

INSTANTIATE_TEST_SUITE_P(Quanta, ColumnMatrixTest,
                         ::testing::Values(8u, 64u, 100u, 512u, 600u, 4096u,
                                           5000u));

TEST(ColumnMatrixSearchTest, TheFirstRankThatIsClearIsFound) {
  constexpr size_t kRanks = 1300;
  ColumnMatrix matrix(64, kRanks);
  RankSet among(kRanks);
  SmallRandom random(1);
  std::vector<bool> fits(kRanks, true);
  RowList rows;
  matrix.AppendRows({Extent(3, 9)}, &rows);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    if (!random.OneIn(50)) {
      const uint32_t lo = random.Between(1, 8);
      matrix.TouchAll(rank, {Extent(lo, lo + 3)});
      fits[rank] = false;
    }
    if (random.OneIn(2)) {
      among.Set(rank);
    } else {
      fits[rank] = false;
    }
  }
  for (size_t begin = 0; begin <= kRanks; begin += 7) {
    for (const size_t end : {begin, begin + 1, size_t{512}, kRanks}) {
      if (end > kRanks || end < begin) continue;
      const auto first =
          std::find(fits.begin() + static_cast<std::ptrdiff_t>(begin),
                    fits.begin() + static_cast<std::ptrdiff_t>(end), true);
      ASSERT_EQ(matrix.FindClear(rows.must_be_clear, among, {begin, end}),
                static_cast<size_t>(first - fits.begin()))
          << begin << " to " << end;
    }
  }
}

TEST(ColumnMatrixSearchTest, WhatIsUntouchedAgainIsClear) {
  ColumnMatrix matrix(64, 600);
  RankSet all(600);
  all.Set(599);
  RowList rows;
  matrix.AppendRows({Extent(3, 9)}, &rows);
  EXPECT_TRUE(matrix.Touch(599, 5));
  EXPECT_FALSE(matrix.Touch(599, 5));
  EXPECT_EQ(matrix.FindClear(rows.must_be_clear, all, {0, 600}), 600u);
  matrix.Untouch(599, 5);
  EXPECT_EQ(matrix.FindClear(rows.must_be_clear, all, {0, 600}), 599u);
}

}  // namespace
}  // namespace firn::testing

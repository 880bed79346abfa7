// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/planner_columns.h"

#include <algorithm>
#include <array>
#include <bit>

namespace firn {
namespace {

constexpr uint32_t kMostColumns = 512;

constexpr uint32_t kColumnsPerGroup = 16;

// Rows looked at together: their loads do not wait for each other.
constexpr size_t kRowsAtOnce = 4;
constexpr size_t kPrefetchedRows = 16;

// Neighbouring columns are mostly of one block, so that the second says little
// that the first does not: halves first, then quarters, and so on.
void Spread(std::vector<uint32_t>* rows, size_t begin) {
  const size_t count = rows->size() - begin;
  if (count < 3) return;
  std::array<uint32_t, kMostColumns> before;
  std::copy(rows->begin() + static_cast<std::ptrdiff_t>(begin), rows->end(),
            before.begin());
  size_t at = begin + 1;  // the first stays first
  for (size_t step = std::bit_ceil(count) / 2; step > 0; step /= 2) {
    for (size_t i = step; i < count; i += 2 * step) (*rows)[at++] = before[i];
  }
}

}  // namespace

ColumnMatrix::ColumnMatrix(uint32_t quanta_per_granule, size_t ranks)
    : column_shift_(static_cast<int>(
          std::bit_width((quanta_per_granule - 1) / kMostColumns))),
      column_count_(((quanta_per_granule - 1) >> column_shift_) + 1),
      group_count_((column_count_ - 1) / kColumnsPerGroup + 1),
      row_count_(column_count_ + 2 * group_count_),
      words_((ranks + kRanksPerBlock - 1) / kRanksPerBlock * kWordsPerBlock *
                 row_count_,
             0) {}

void ColumnMatrix::AppendRows(absl::Span<const OffsetInterval> extents,
                              RowList* list) const {
  const uint32_t any_row = column_count_;
  const uint32_t full_row = column_count_ + group_count_;
  uint32_t last_group = group_count_;
  fine_.clear();
  // Of a group that is not filled: once.
  const auto add_column = [&](uint32_t column) {
    list->touched.push_back(column);
    const uint32_t group = column / kColumnsPerGroup;
    if (group == last_group) return;
    last_group = group;
    list->must_be_clear.push_back(full_row + group);
    list->touched.push_back(any_row + group);
  };
  const auto add_part = [&](uint32_t column) {
    if (!list->part.empty() && list->part.back() == column) return;
    list->part.push_back(column);
    add_column(column);
  };
  const uint32_t rest = (1u << column_shift_) - 1;
  for (const OffsetInterval& extent : extents) {
    uint32_t column = (extent.lo + rest) >> column_shift_;
    const uint32_t end = extent.hi >> column_shift_;
    const uint32_t first = extent.lo >> column_shift_;
    const uint32_t last = (extent.hi - 1) >> column_shift_;
    if (first < column) add_part(first);
    while (column < end) {
      if (column % kColumnsPerGroup == 0 && column + kColumnsPerGroup <= end) {
        const uint32_t group = column / kColumnsPerGroup;
        list->must_be_clear.push_back(any_row + group);
        list->touched.push_back(any_row + group);
        list->touched.push_back(full_row + group);
        column += kColumnsPerGroup;
        continue;
      }
      fine_.push_back(column);
      add_column(column);
      ++column;
    }
    if (last >= end) add_part(last);
  }
  const size_t begin = list->must_be_clear.size();
  list->must_be_clear.insert(list->must_be_clear.end(), fine_.begin(),
                             fine_.end());
  Spread(&list->must_be_clear, begin);
}

void ColumnMatrix::TouchAll(size_t rank,
                            absl::Span<const OffsetInterval> extents) {
  const uint64_t bit = uint64_t{1} << (rank % 64);
  uint64_t* const words = &words_[IndexOf(rank, 0)];
  const auto touch = [words, bit](uint32_t row) {
    words[row * kWordsPerBlock] |= bit;
  };
  for (const OffsetInterval& extent : extents) {
    const uint32_t whole_end = extent.hi >> column_shift_;
    const uint32_t end = ((extent.hi - 1) >> column_shift_) + 1;
    uint32_t column = extent.lo >> column_shift_;
    const bool starts_in_part = (column << column_shift_) < extent.lo;
    if (starts_in_part) touch(column);
    touch(column_count_ + column / kColumnsPerGroup);
    column += starts_in_part ? 1 : 0;
    while (column < end) {
      const uint32_t group = column / kColumnsPerGroup;
      touch(column_count_ + group);
      const uint32_t group_end = (group + 1) * kColumnsPerGroup;
      if (column % kColumnsPerGroup == 0 && group_end <= whole_end) {
        touch(column_count_ + group_count_ + group);
        column = group_end;
        continue;
      }
      for (; column < std::min(end, group_end); ++column) touch(column);
    }
  }
}

size_t ColumnMatrix::FindClear(absl::Span<const uint32_t> rows,
                               const RankSet& among, Ranks ranks) const {
  if (ranks.begin >= ranks.end) return ranks.end;
  for (size_t at = ranks.begin / kRanksPerBlock * kRanksPerBlock;
       at < ranks.end; at += kRanksPerBlock) {
    std::array<uint64_t, kWordsPerBlock> clear;
    std::copy_n(among.words() + at / 64, kWordsPerBlock, clear.begin());
    if (at < ranks.begin) {
      const size_t skipped = ranks.begin - at;
      std::fill_n(clear.begin(), skipped / 64, 0);
      clear[skipped / 64] &= ~uint64_t{0} << (skipped % 64);
    }
    const uint64_t* const block = &words_[IndexOf(at, 0)];
    const auto touched = [&](size_t i) {
      return block + rows[i] * kWordsPerBlock;
    };
    const auto any_clear = [&clear] {
      uint64_t any = 0;
      for (const uint64_t word : clear) any |= word;
      return any != 0;
    };
    // Nearly every block is looked at in its first rows only, and none of them
    // is in the cache.
    if (at + kRanksPerBlock < ranks.end) {
      const uint64_t* const next = block + row_count_ * kWordsPerBlock;
      for (size_t i = 0; i < std::min(kPrefetchedRows, rows.size()); ++i) {
        __builtin_prefetch(next + rows[i] * kWordsPerBlock);
      }
    }
    bool any = true;
    size_t n = 0;
    for (; any && n + kRowsAtOnce <= rows.size(); n += kRowsAtOnce) {
      const uint64_t* const a = touched(n);
      const uint64_t* const b = touched(n + 1);
      const uint64_t* const c = touched(n + 2);
      const uint64_t* const d = touched(n + 3);
      for (size_t i = 0; i < kWordsPerBlock; ++i) {
        clear[i] &= ~(a[i] | b[i] | c[i] | d[i]);
      }
      any = any_clear();
    }
    for (; any && n < rows.size(); ++n) {
      const uint64_t* const a = touched(n);
      for (size_t i = 0; i < kWordsPerBlock; ++i) clear[i] &= ~a[i];
      any = any_clear();
    }
    if (!any) continue;
    for (size_t i = 0; i < kWordsPerBlock; ++i) {
      if (clear[i] == 0) continue;
      const size_t rank =
          at + i * 64 + static_cast<size_t>(std::countr_zero(clear[i]));
      if (rank < ranks.end) return rank;
      break;
    }
  }
  return ranks.end;
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which of many granules are clear at certain offsets: offsets are cut into
// columns, and each column is a bit set over the granules, so that a search
// looks at hundreds of granules at a time.

#ifndef FIRN_COMPACTION_PLANNER_COLUMNS_H_
#define FIRN_COMPACTION_PLANNER_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "firn/vmm/units.h"

namespace firn {

// Bits for ranks 0, 1, 2 ..., all clear at first; as many words as FindClear
// wants of it.
class RankSet {
 public:
  explicit RankSet(size_t ranks) : words_((ranks + 511) / 512 * 8, 0) {}

  bool Has(size_t rank) const {
    return (words_[rank / 64] >> (rank % 64) & 1) != 0;
  }
  void Set(size_t rank) { words_[rank / 64] |= uint64_t{1} << (rank % 64); }
  void Clear(size_t rank) {
    words_[rank / 64] &= ~(uint64_t{1} << (rank % 64));
  }
  const uint64_t* words() const { return words_.data(); }

 private:
  std::vector<uint64_t> words_;
};

// Rows of a ColumnMatrix that extents have to do with.
struct RowList {
  // The extents fit where all of these are clear, but for what `part` says.
  std::vector<uint32_t> must_be_clear;
  // Columns that they fill in part only: where one of these is not clear, the
  // quanta must be compared.
  std::vector<uint32_t> part;
  // What becomes touched by them.
  std::vector<uint32_t> touched;
};

// Neighbouring ranks.
struct Ranks {
  size_t begin = 0;
  size_t end = 0;
};

// At most 512 columns: of 4 KiB for granules of 2 MiB, so that nothing need be
// compared more exactly where all blocks are multiples of it. Of 16 columns
// that one extent fills only one row is kept, which says so; and one says of
// every 16 whether anything is there. Thread safety: none.
class ColumnMatrix {
 public:
  ColumnMatrix(uint32_t quanta_per_granule, size_t ranks);

  // Appends the rows of `extents`, which are sorted, to `list`. Those that tell
  // most come first.
  void AppendRows(absl::Span<const OffsetInterval> extents,
                  RowList* list) const;

  bool IsTouched(size_t rank, uint32_t row) const {
    return (words_[IndexOf(rank, row)] >> (rank % 64) & 1) != 0;
  }
  // Touches the rows that AppendRows would say.
  void TouchAll(size_t rank, absl::Span<const OffsetInterval> extents);
  // Whether it was not touched before.
  bool Touch(size_t rank, uint32_t row) {
    uint64_t& word = words_[IndexOf(rank, row)];
    const uint64_t bit = uint64_t{1} << (rank % 64);
    const bool was_clear = (word & bit) == 0;
    word |= bit;
    return was_clear;
  }
  void Untouch(size_t rank, uint32_t row) {
    words_[IndexOf(rank, row)] &= ~(uint64_t{1} << (rank % 64));
  }

  // The first of `ranks` that is in `among` and touched in none of `rows`;
  // their end if none is.
  size_t FindClear(absl::Span<const uint32_t> rows, const RankSet& among,
                   Ranks ranks) const;

 private:
  // Of the word that holds the bit.
  size_t IndexOf(size_t rank, uint32_t row) const {
    return (rank / kRanksPerBlock * row_count_ + row) * kWordsPerBlock +
           rank / 64 % kWordsPerBlock;
  }

  // Ranks looked at together: a cache line of each row.
  static constexpr size_t kWordsPerBlock = 8;
  static constexpr size_t kRanksPerBlock = 64 * kWordsPerBlock;

  const int column_shift_;  // quanta per column: a power of two
  const uint32_t column_count_;
  const uint32_t group_count_;  // 16 columns each
  // A row for each column, then for each group whether it is touched at all,
  // and whether one extent fills it.
  const uint32_t row_count_;
  std::vector<uint64_t> words_;         // by block of ranks, row, rank
  mutable std::vector<uint32_t> fine_;  // scratch of AppendRows
};

}  // namespace firn

#endif  // FIRN_COMPACTION_PLANNER_COLUMNS_H_

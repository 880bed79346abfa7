// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Disjoint free ranges with the best fitting one found in O(log n): indexed by
// address, to join neighbours, and by length.

#ifndef FIRN_CORE_PLACEMENT_BEST_FIT_RANGES_H_
#define FIRN_CORE_PLACEMENT_BEST_FIT_RANGES_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement_kind.h"

namespace firn {

// Thread safety: none.
class BestFitRanges {
 public:
  static constexpr PlacementKind kKind = PlacementKind::kBestFit;

  // The shortest range that is long enough, of several the lowest; nothing if
  // none is. REQUIRES: `bytes` is not 0.
  std::optional<FreeRange> Find(uint64_t bytes) const;

  // The bottom `bytes` of the range that Find finds.
  std::optional<uint64_t> Take(uint64_t bytes);

  // Takes that very range; false, and nothing has changed, unless all of it is
  // free.
  bool TakeAt(FreeRange range);

  // Puts a range back, joined at once with the ranges that touch it.
  // REQUIRES: it is not empty and overlaps no range here.
  void Give(FreeRange range);

  // Takes out what of `range` is free; returns how many bytes that was.
  uint64_t Remove(FreeRange range);

  uint64_t count() const { return bytes_by_start_.size(); }

 private:
  using ByStart = absl::btree_map<uint64_t, uint64_t>;

  // Cuts `taken` out of the free range around it; returns what follows it.
  ByStart::iterator Cut(ByStart::iterator range, FreeRange taken);

  ByStart bytes_by_start_;
  absl::btree_set<std::pair<uint64_t, uint64_t>> by_bytes_and_start_;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_BEST_FIT_RANGES_H_

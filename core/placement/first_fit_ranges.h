// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Disjoint free ranges of which the lowest that is long enough is cut.

#ifndef FIRN_CORE_PLACEMENT_FIRST_FIT_RANGES_H_
#define FIRN_CORE_PLACEMENT_FIRST_FIT_RANGES_H_

#include <cstdint>
#include <optional>

#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement_kind.h"

namespace firn {

// Thread safety: none.
class FirstFitRanges {
 public:
  static constexpr PlacementKind kKind = PlacementKind::kFreeList;

  // The lowest range that is long enough; nothing if none is. REQUIRES: `bytes`
  // is not 0.
  std::optional<FreeRange> Find(uint64_t bytes) const {
    const FreeRangeTree::Node node = ranges_.FirstFit(bytes);
    if (node == FreeRangeTree::kNone) return std::nullopt;
    return ranges_.range(node);
  }

  // The bottom `bytes` of the range that Find finds.
  std::optional<uint64_t> Take(uint64_t bytes) {
    const FreeRangeTree::Node node = ranges_.FirstFit(bytes);
    if (node == FreeRangeTree::kNone) return std::nullopt;
    const uint64_t start = ranges_.range(node).start;
    ranges_.Take(node, start, bytes);
    return start;
  }

  // Takes that very range; false, and nothing has changed, unless all of it is
  // free.
  bool TakeAt(FreeRange range) {
    if (!ranges_.Contains(range)) return false;
    ranges_.Take(ranges_.Around(range.start).below, range.start, range.bytes);
    return true;
  }

  // Puts a range back, joined at once with the ranges that touch it.
  // REQUIRES: it is not empty and overlaps no range here.
  void Give(FreeRange range) { ranges_.Give(range); }

  // Takes out what of `range` is free.
  void Remove(FreeRange range) { ranges_.Remove(range); }

 private:
  FreeRangeTree ranges_;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_FIRST_FIT_RANGES_H_

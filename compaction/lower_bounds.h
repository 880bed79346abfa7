// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How few granules any plan could end with, whatever it moves, as long as
// every address keeps its offset within the granule.

#ifndef FIRN_COMPACTION_LOWER_BOUNDS_H_
#define FIRN_COMPACTION_LOWER_BOUNDS_H_

#include <algorithm>
#include <cstdint>

#include "firn/compaction/snapshot.h"

namespace firn {

// Each counts the full granules in.
struct LowerBounds {
  // Live bytes divided by the granule, rounded up.
  uint32_t by_bytes = 0;
  // The most virtual granules live at one offset: no two of them can share.
  uint32_t by_depth = 0;
  // Virtual granules live in more than half of the granule: likewise.
  uint32_t by_large = 0;
  // Granules with something pinned: each stays, whatever comes beside it. In
  // the other bounds pinned virtual granules count like all others, as moving
  // less never needs fewer granules.
  uint32_t by_pins = 0;
  // What any packing of their live quanta into granules needs (PackingBound):
  // never below `by_bytes` and `by_large`. All that is pinned on one granule
  // counts as one, as it stays together.
  uint32_t by_packing = 0;

  uint32_t max() const {
    return std::max({by_bytes, by_depth, by_large, by_pins, by_packing});
  }
};

// Linear in the snapshot and in the quanta of a granule. SufficientGranules
// (interval_packing.h) is an upper bound of the same number.
LowerBounds ComputeLowerBounds(const Snapshot& snapshot);

}  // namespace firn

#endif  // FIRN_COMPACTION_LOWER_BOUNDS_H_

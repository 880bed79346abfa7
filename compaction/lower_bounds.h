// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How few granules any plan could end with, whatever it moves, as long as
// every address keeps its offset within the granule.

#ifndef FIRN_COMPACTION_LOWER_BOUNDS_H_
#define FIRN_COMPACTION_LOWER_BOUNDS_H_

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

  uint32_t max() const {
    const uint32_t larger = by_bytes > by_depth ? by_bytes : by_depth;
    return larger > by_large ? larger : by_large;
  }
};

// Linear in the snapshot and in the quanta of a granule.
LowerBounds ComputeLowerBounds(const Snapshot& snapshot);

}  // namespace firn

#endif  // FIRN_COMPACTION_LOWER_BOUNDS_H_

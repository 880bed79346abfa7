// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/slab_shape.h"

#include "firn/core/placement/size_rounding.h"

namespace firn {

uint64_t SlabGranules(uint64_t block_bytes, uint64_t granule_bytes) {
  constexpr uint64_t kMostBlockRuns = 8;
  constexpr uint64_t kToleratedShare = 8;
  const uint64_t least_granules = DivideUp(block_bytes, granule_bytes);
  uint64_t best_granules = least_granules;
  uint64_t best_left_over = least_granules * granule_bytes % block_bytes;
  for (uint64_t granules = least_granules;
       granules <= least_granules * kMostBlockRuns; ++granules) {
    const uint64_t left_over = granules * granule_bytes % block_bytes;
    if (left_over * kToleratedShare <= granules * granule_bytes) {
      return granules;
    }
    if (left_over * best_granules < best_left_over * granules) {
      best_granules = granules;
      best_left_over = left_over;
    }
  }
  return best_granules;
}

}  // namespace firn

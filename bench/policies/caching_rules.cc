// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/caching_rules.h"

#include "firn/core/placement/size_rounding.h"
#include "firn/vmm/units.h"

namespace firn::bench {
namespace {

uint64_t FloorPowerOfTwo(uint64_t value) {
  return uint64_t{1} << (63 - __builtin_clzll(value));
}

}  // namespace

uint64_t CachedBlockBytes(uint64_t bytes, uint64_t roundup_power2_divisions) {
  if (bytes < kQuantumBytes) return kQuantumBytes;
  // One division is no step between powers of two: as if off.
  if (roundup_power2_divisions > 1 &&
      bytes / kQuantumBytes >= roundup_power2_divisions) {
    // At least 512 bytes, as there are that many for each division.
    const uint64_t step_bytes =
        FloorPowerOfTwo(bytes) / FloorPowerOfTwo(roundup_power2_divisions);
    return RoundUp(bytes, step_bytes);
  }
  return RoundUp(bytes, kQuantumBytes);
}

uint64_t CachingSegmentBytes(uint64_t block_bytes) {
  if (block_bytes <= kLargestSmallBlockBytes) return kSmallSegmentBytes;
  if (block_bytes < kLeastOwnSegmentBytes) return kSharedSegmentBytes;
  return RoundUp(block_bytes, kOwnSegmentUnitBytes);
}

}  // namespace firn::bench

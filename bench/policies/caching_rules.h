// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sizes that PyTorch's native caching allocator works with: how it rounds a
// request, which pool serves it, how large a segment it asks the device for.

#ifndef FIRN_BENCH_POLICIES_CACHING_RULES_H_
#define FIRN_BENCH_POLICIES_CACHING_RULES_H_

#include <cstdint>
#include <limits>

namespace firn::bench {

// Blocks up to this come from the pool of small blocks.
inline constexpr uint64_t kLargestSmallBlockBytes = uint64_t{1} << 20;
// Segments of the small pool, of blocks of less than kLeastOwnSegmentBytes, and
// the unit of those of larger ones.
inline constexpr uint64_t kSmallSegmentBytes = uint64_t{2} << 20;
inline constexpr uint64_t kSharedSegmentBytes = uint64_t{20} << 20;
inline constexpr uint64_t kLeastOwnSegmentBytes = uint64_t{10} << 20;
inline constexpr uint64_t kOwnSegmentUnitBytes = uint64_t{2} << 20;

// What PYTORCH_CUDA_ALLOC_CONF offers, with its defaults: all off.
struct CachingOptions {
  // max_split_size_mb: cached blocks of this size or more are never split, and
  // serve only requests of this size or more with less than 20 MiB to spare.
  // More than kSharedSegmentBytes.
  uint64_t max_split_bytes = std::numeric_limits<uint64_t>::max();
  // garbage_collection_threshold: above this share of the capacity, segments
  // that have been free for long are released before new ones are made; 0: off.
  double garbage_collection_threshold = 0;
  // roundup_power2_divisions: requests are rounded up to one of so many equal
  // steps between powers of two; a power of two; 0: off.
  uint64_t roundup_power2_divisions = 0;
};

// Bytes of the block that serves a request: whole 512 bytes, or the next step
// where `roundup_power2_divisions` applies.
uint64_t CachedBlockBytes(uint64_t bytes, uint64_t roundup_power2_divisions);

// Bytes of the segment that is made where no cached block fits.
uint64_t CachingSegmentBytes(uint64_t block_bytes);

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_CACHING_RULES_H_

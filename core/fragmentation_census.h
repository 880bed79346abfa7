// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Adds up what a walk over a pool's blocks and free pieces finds, for its
// FragmentationStats.

#ifndef FIRN_CORE_FRAGMENTATION_CENSUS_H_
#define FIRN_CORE_FRAGMENTATION_CENSUS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/core/fragmentation_stats.h"

namespace firn {

// Thread safety: none.
class FragmentationCensus {
 public:
  // A block: live if anything of it is `requested_bytes`, else kept.
  void AddBlock(uint64_t requested_bytes, uint64_t extent_bytes);
  // So many free pieces of this size.
  void AddFreePieces(uint64_t piece_bytes, uint64_t count);
  // Granules with any of these, or segments.
  void AddUsed(uint64_t bytes) { used_bytes_ += bytes; }

  // The bytes, the pieces and the sizes; the rest is as in a new struct.
  FragmentationStats ToStats() const;

 private:
  // The last one ends at 2^63 bytes.
  static constexpr size_t kBuckets = 55;
  using Sizes = std::array<SizeBucket, kBuckets>;  // without up_to_bytes

  static void Add(uint64_t bytes, uint64_t count, Sizes* sizes);
  static std::vector<SizeBucket> ToBuckets(const Sizes& sizes);

  uint64_t live_blocks_ = 0;
  uint64_t requested_bytes_ = 0;
  uint64_t allocated_bytes_ = 0;
  uint64_t kept_bytes_ = 0;
  uint64_t free_bytes_ = 0;
  uint64_t free_pieces_ = 0;
  uint64_t largest_free_bytes_ = 0;
  uint64_t used_bytes_ = 0;
  Sizes live_{};
  Sizes free_{};
};

}  // namespace firn

#endif  // FIRN_CORE_FRAGMENTATION_CENSUS_H_

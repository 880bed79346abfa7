// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The tier of middle-sized blocks: binary buddies within chunks taken from the
// shared budget and, once wholly free, kept until another tier needs them.
//
// A chunk is a power of two. A block that no chunk has room for gets a new one
// of 32 MiB; of less, down to the block's own size, where the budget has only
// less left; of its own size, if that is more, or if other tiers must give
// memory back for it. All of a chunk is held, so a block of 129 MiB by itself
// holds 256: what buddies cost.

#ifndef FIRN_BENCH_POLICIES_BUDDY_TIER_H_
#define FIRN_BENCH_POLICIES_BUDDY_TIER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bench/policies/granule_budget.h"
#include "firn/core/placement/buddy_arena.h"
#include "firn/core/placement/lowest_bit_set.h"

namespace firn::bench {

// Thread safety: none.
class BuddyTier {
 public:
  static constexpr uint64_t kChunkBytes = uint64_t{32} << 20;

  // Takes blocks of up to `largest_bytes`, a power of two. `budget` must
  // outlive it.
  BuddyTier(uint64_t largest_bytes, GranuleBudget* budget);

  // The granules that a block needs from the budget at least: 0 if a chunk has
  // room.
  uint64_t MissingGranules(uint64_t bytes) const;
  // The address of a new block. REQUIRES: the budget has the granules missing.
  uint64_t Allocate(uint64_t bytes);
  // The requested bytes of the block that is gone now; 0 if there was none.
  uint64_t Free(uint64_t address);

  // Granules with at least one live byte, and granules of chunks that are
  // wholly free.
  uint64_t used_granules() const { return used_granules_; }
  uint64_t kept_granules() const { return kept_granules_; }
  // Gives a wholly free chunk back to the budget, the lowest. REQUIRES: there
  // is one.
  void GiveKeptBack();

 private:
  // The order of a chunk for a block of that size at least.
  uint32_t LeastChunkOrder(uint64_t bytes) const;
  uint64_t ChunkGranules(uint32_t order) const {
    return BuddyArena::BytesOf(order) / budget_->granule_bytes();
  }
  void AddChunk(uint32_t order);
  void CountUsed(uint64_t address, uint64_t bytes);
  void CountUnused(uint64_t address, uint64_t bytes);

  GranuleBudget* const budget_;
  // Chunk i is at i times this: room for the largest chunk, and for the buddy
  // it does not have.
  const uint64_t chunk_stride_bytes_;
  BuddyArena buddies_;
  std::vector<uint32_t> chunk_orders_;
  LowestBitSet unused_chunks_;  // numbers that may be used again
  LowestBitSet free_chunks_;
  // Live blocks per granule, where blocks are smaller than a granule.
  absl::flat_hash_map<uint64_t, uint64_t> blocks_in_granule_;
  // Requested bytes by address.
  absl::flat_hash_map<uint64_t, uint64_t> blocks_;
  uint64_t used_granules_ = 0;
  uint64_t kept_granules_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_BUDDY_TIER_H_

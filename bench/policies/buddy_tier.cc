// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/buddy_tier.h"

#include <algorithm>

#include "firn/core/placement/size_rounding.h"

namespace firn::bench {

BuddyTier::BuddyTier(uint64_t largest_bytes, GranuleBudget* budget)
    : budget_(budget),
      chunk_stride_bytes_(2 *
                          std::max(largest_bytes, budget->granule_bytes())) {}

uint32_t BuddyTier::LeastChunkOrder(uint64_t bytes) const {
  return BuddyArena::OrderFor(std::max(bytes, budget_->granule_bytes()));
}

uint64_t BuddyTier::MissingGranules(uint64_t bytes) const {
  if (buddies_.HasFree(BuddyArena::OrderFor(bytes))) return 0;
  return ChunkGranules(LeastChunkOrder(bytes));
}

uint64_t BuddyTier::Allocate(uint64_t bytes) {
  const uint32_t order = BuddyArena::OrderFor(bytes);
  if (!buddies_.HasFree(order)) {
    const uint64_t free_bytes =
        budget_->free_granules() * budget_->granule_bytes();
    AddChunk(std::max(
        LeastChunkOrder(bytes),
        BuddyArena::LargestOrderWithin(std::min(kChunkBytes, free_bytes))));
  }
  const uint64_t address = buddies_.Take(order);
  blocks_.emplace(address, bytes);
  const uint64_t chunk = address / chunk_stride_bytes_;
  if (free_chunks_.Erase(chunk)) {
    kept_granules_ -= ChunkGranules(chunk_orders_[chunk]);
  }
  CountUsed(address, bytes);
  return address;
}

void BuddyTier::AddChunk(uint32_t order) {
  uint64_t chunk = unused_chunks_.Lowest();
  if (chunk == LowestBitSet::kNone) {
    chunk = chunk_orders_.size();
    chunk_orders_.push_back(order);
  } else {
    unused_chunks_.Erase(chunk);
    chunk_orders_[chunk] = order;
  }
  budget_->Take(ChunkGranules(order));
  buddies_.Give({chunk * chunk_stride_bytes_, order});
  free_chunks_.Insert(chunk);
  kept_granules_ += ChunkGranules(order);
}

uint64_t BuddyTier::Free(uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return 0;
  const uint64_t bytes = block->second;
  blocks_.erase(block);
  CountUnused(address, bytes);
  const BuddyArena::Block joined =
      buddies_.Give({address, BuddyArena::OrderFor(bytes)});
  const uint64_t chunk = address / chunk_stride_bytes_;
  if (joined.order == chunk_orders_[chunk]) {
    free_chunks_.Insert(chunk);
    kept_granules_ += ChunkGranules(joined.order);
  }
  return bytes;
}

void BuddyTier::GiveKeptBack() {
  const uint64_t chunk = free_chunks_.Lowest();
  const uint32_t order = chunk_orders_[chunk];
  free_chunks_.Erase(chunk);
  buddies_.TakeAt({chunk * chunk_stride_bytes_, order});
  unused_chunks_.Insert(chunk);
  kept_granules_ -= ChunkGranules(order);
  budget_->Give(ChunkGranules(order));
}

// A block of a granule or more starts at a granule and shares none.
void BuddyTier::CountUsed(uint64_t address, uint64_t bytes) {
  const uint64_t granule_bytes = budget_->granule_bytes();
  if (bytes > granule_bytes / 2) {
    used_granules_ += DivideUp(bytes, granule_bytes);
  } else if (blocks_in_granule_[address / granule_bytes]++ == 0) {
    ++used_granules_;
  }
}

void BuddyTier::CountUnused(uint64_t address, uint64_t bytes) {
  const uint64_t granule_bytes = budget_->granule_bytes();
  if (bytes > granule_bytes / 2) {
    used_granules_ -= DivideUp(bytes, granule_bytes);
    return;
  }
  const auto granule = blocks_in_granule_.find(address / granule_bytes);
  if (--granule->second == 0) {
    blocks_in_granule_.erase(granule);
    --used_granules_;
  }
}

}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A hash table from the exact size of a free block to the free blocks of that
// size.

#ifndef FIRN_CORE_PLACEMENT_SIZE_HASH_TABLE_H_
#define FIRN_CORE_PLACEMENT_SIZE_HASH_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "firn/core/placement/free_range_tree.h"

namespace firn {

// A bin holds the free blocks of one size, last in first out, and exists only
// while it holds one. Bins whose sizes hash to one bucket are chained there.
// The load is bins per bucket; adding a bin that brings it above 0.75 doubles
// the buckets and chains every bin anew. Thread safety: none.
class SizeHashTable {
 public:
  static constexpr uint32_t kFirstBuckets = 16;

  SizeHashTable() : buckets_(kFirstBuckets, kNone) {}

  void Push(FreeRange block);
  // The start of the block of exactly `bytes` that came last.
  std::optional<uint64_t> Pop(uint64_t bytes);
  // Takes all blocks out, in no order that means anything; leaves as few
  // buckets as at first, so that the next time costs no more than what came.
  std::vector<FreeRange> Drain();

  uint64_t buckets() const { return buckets_.size(); }
  uint64_t bins() const { return bins_count_; }
  uint64_t blocks() const { return blocks_count_; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Bin {
    uint64_t bytes = 0;
    uint32_t first_block = kNone;
    uint32_t next_bin = kNone;  // of the bucket
  };
  struct Block {
    uint64_t start = 0;
    uint32_t next_block = kNone;  // of the bin
  };

  uint32_t BucketOf(uint64_t bytes) const;
  // What refers to the bin of `bytes`, a bucket or the bin before it; where
  // there is no such bin, the end of the chain.
  uint32_t* LinkTo(uint64_t bytes);
  void DoubleBuckets();

  std::vector<uint32_t> buckets_;  // the first bin of each
  std::vector<Bin> bins_;
  std::vector<uint32_t> unused_bins_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> unused_blocks_;
  uint64_t bins_count_ = 0;
  uint64_t blocks_count_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_SIZE_HASH_TABLE_H_

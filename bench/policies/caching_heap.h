// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The segments and blocks of PyTorch's native caching allocator: a pool of
// small and one of large blocks, in each the free blocks of a stream by size.

#ifndef FIRN_BENCH_POLICIES_CACHING_HEAP_H_
#define FIRN_BENCH_POLICIES_CACHING_HEAP_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "bench/policies/caching_rules.h"
#include "bench/policies/driver_ledger.h"
#include "firn/core/placement/free_range_tree.h"

namespace firn::bench {

// Which block serves a request, and which segments there are. A segment is what
// one cudaMalloc returns: it is made and given back as a whole, and is charged
// as one run of new granules. Its size is that of CachingSegmentBytes in whole
// granules. Blocks of a segment are split from the front; a freed one is joined
// with free neighbours in its segment.
//
// Knows no capacity. Thread safety: none.
class CachingHeap {
 public:
  // Addresses start at `base`. `ledger` must outlive the heap.
  CachingHeap(uint64_t base, uint64_t granule_bytes,
              const CachingOptions& options, DriverLedger* ledger);
  CachingHeap(const CachingHeap&) = delete;
  CachingHeap& operator=(const CachingHeap&) = delete;

  // A block for `bytes` out of the cache: the smallest of the stream that holds
  // it, of those the lowest.
  std::optional<uint64_t> Reuse(uint64_t bytes, uint32_t stream);
  // Granules of the segment that Open would make for `bytes`.
  uint64_t SegmentGranules(uint64_t bytes) const;
  // A block for `bytes` at the start of a new segment.
  uint64_t Open(uint64_t bytes, uint32_t stream);
  // False: no live block starts there.
  bool Free(uint64_t address);

  // Releases the smallest free segment of the stream that would hold `bytes`
  // and is oversize (of max_split_bytes or more), else as many oversize ones,
  // from the largest, as sum up to it. False: there are none, or too few.
  bool ReleaseAvailable(uint64_t bytes, uint32_t stream);
  // Releases free segments until `granules` are, or none is left.
  void ReleaseCached(uint64_t granules);
  // While more than `threshold_granules` are held: releases the free segments
  // of large blocks that have been free for at least the mean number of
  // requests, and again, until as much was released as there were too many.
  void CollectGarbage(uint64_t threshold_granules);

  uint64_t held_granules() const { return held_granules_; }
  // Of segments with at least one live block.
  uint64_t used_granules() const { return used_granules_; }
  uint64_t live_bytes() const { return live_bytes_; }

 private:
  using Index = uint32_t;
  static constexpr Index kNone = ~Index{0};

  struct Segment {
    uint64_t granules = 0;
    uint64_t live_blocks = 0;
  };

  struct Block {
    uint64_t address = 0;
    uint64_t bytes = 0;
    union {
      uint64_t requested_bytes = 0;  // while live
      uint64_t cached_at;            // while free: the pool's request number
    };
    Index previous = kNone;  // in its segment, by address
    Index next = kNone;
    Index segment = kNone;
    uint32_t stream = 0;
    bool is_live = false;
    uint8_t pool = 0;

    bool IsWhole() const { return previous == kNone && next == kNone; }
  };

  struct Key {
    uint32_t stream = 0;
    Index block = kNone;  // not compared
    uint64_t bytes = 0;
    uint64_t address = 0;

    bool operator<(const Key& other) const {
      if (stream != other.stream) return stream < other.stream;
      if (bytes != other.bytes) return bytes < other.bytes;
      return address < other.address;
    }
  };

  struct Pool {
    absl::btree_set<Key> free_blocks;
    // Those of them that are whole segments.
    absl::btree_set<Key> free_segments;
    uint64_t requests = 0;
  };

  uint64_t BlockBytes(uint64_t bytes) const;
  static uint8_t PoolFor(uint64_t block_bytes);
  Key KeyOf(Index block) const;
  Index NewBlock(const Block& block);
  void InsertFree(Index block);
  void EraseFree(Index block);
  // Makes `block`, which is in no pool, live; returns its address.
  uint64_t Use(Index block, uint64_t bytes, uint64_t block_bytes);
  bool ShouldSplit(const Block& block, uint64_t block_bytes) const;
  // Makes `block` cover the free block that follows it, which must be in no
  // pool, and forgets that one.
  void JoinNext(Index block);
  // `block` is a free segment.
  void ReleaseSegment(Index block);

  const uint64_t granule_bytes_;
  const CachingOptions options_;
  DriverLedger* const ledger_;
  // Addresses of no segment.
  FreeRangeTree addresses_;
  std::vector<Segment> segments_;
  std::vector<Index> unused_segments_;
  std::vector<Block> blocks_;
  std::vector<Index> unused_blocks_;
  absl::flat_hash_map<uint64_t, Index> live_blocks_;  // by address
  std::array<Pool, 2> pools_;                         // small, large
  uint64_t held_granules_ = 0;
  uint64_t used_granules_ = 0;
  uint64_t live_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_CACHING_HEAP_H_

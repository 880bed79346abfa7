// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/caching_heap.h"

#include <algorithm>
#include <iterator>

#include "firn/core/placement/size_rounding.h"
#include "firn/vmm/units.h"

namespace firn::bench {
namespace {

constexpr uint8_t kSmallPool = 0;
constexpr uint8_t kLargePool = 1;

// More than any capacity a policy admits.
constexpr uint64_t kAddressSpaceBytes = uint64_t{1} << 60;

}  // namespace

CachingHeap::CachingHeap(uint64_t base, uint64_t granule_bytes,
                         const CachingOptions& options, DriverLedger* ledger)
    : granule_bytes_(granule_bytes), options_(options), ledger_(ledger) {
  addresses_.Insert({base, kAddressSpaceBytes});
}

uint64_t CachingHeap::BlockBytes(uint64_t bytes) const {
  return CachedBlockBytes(bytes, options_.roundup_power2_divisions);
}

uint8_t CachingHeap::PoolFor(uint64_t block_bytes) {
  return block_bytes <= kLargestSmallBlockBytes ? kSmallPool : kLargePool;
}

CachingHeap::Key CachingHeap::KeyOf(Index block) const {
  const Block& b = blocks_[block];
  return {b.stream, block, b.bytes, b.address};
}

CachingHeap::Index CachingHeap::NewBlock(const Block& block) {
  if (unused_blocks_.empty()) {
    blocks_.push_back(block);
    return static_cast<Index>(blocks_.size() - 1);
  }
  const Index index = unused_blocks_.back();
  unused_blocks_.pop_back();
  blocks_[index] = block;
  return index;
}

void CachingHeap::InsertFree(Index block) {
  Block& b = blocks_[block];
  Pool& pool = pools_[b.pool];
  b.cached_at = pool.requests;
  pool.free_blocks.insert(KeyOf(block));
  if (b.IsWhole()) pool.free_segments.insert(KeyOf(block));
}

void CachingHeap::EraseFree(Index block) {
  const Block& b = blocks_[block];
  Pool& pool = pools_[b.pool];
  pool.free_blocks.erase(KeyOf(block));
  if (b.IsWhole()) pool.free_segments.erase(KeyOf(block));
}

std::optional<uint64_t> CachingHeap::Reuse(uint64_t bytes, uint32_t stream) {
  const uint64_t block_bytes = BlockBytes(bytes);
  Pool& pool = pools_[PoolFor(block_bytes)];
  ++pool.requests;
  const auto found =
      pool.free_blocks.lower_bound({stream, kNone, block_bytes, 0});
  if (found == pool.free_blocks.end() || found->stream != stream) {
    return std::nullopt;
  }
  const uint64_t max_split_bytes = options_.max_split_bytes;
  // An oversize block is kept for oversize requests ...
  if (block_bytes < max_split_bytes && found->bytes >= max_split_bytes) {
    return std::nullopt;
  }
  // ... and, as it is not split, not for those that would waste too much.
  if (block_bytes >= max_split_bytes &&
      found->bytes >= block_bytes + kSharedSegmentBytes) {
    return std::nullopt;
  }
  const Index block = found->block;
  EraseFree(block);
  return Use(block, bytes, block_bytes);
}

uint64_t CachingHeap::SegmentGranules(uint64_t bytes) const {
  return DivideUp(CachingSegmentBytes(BlockBytes(bytes)), granule_bytes_);
}

uint64_t CachingHeap::Open(uint64_t bytes, uint32_t stream) {
  const uint64_t block_bytes = BlockBytes(bytes);
  Segment segment;
  segment.granules = SegmentGranules(bytes);
  Index segment_index;
  if (unused_segments_.empty()) {
    segment_index = static_cast<Index>(segments_.size());
    segments_.push_back(segment);
  } else {
    segment_index = unused_segments_.back();
    unused_segments_.pop_back();
    segments_[segment_index] = segment;
  }
  held_granules_ += segment.granules;
  ledger_->ChargeNewRun(segment.granules);

  const uint64_t segment_bytes = segment.granules * granule_bytes_;
  const FreeRangeTree::Node node = addresses_.FirstFit(segment_bytes);
  Block block;
  block.address = addresses_.range(node).start;
  addresses_.Take(node, block.address, segment_bytes);
  block.bytes = segment_bytes;
  block.segment = segment_index;
  block.stream = stream;
  block.pool = PoolFor(block_bytes);
  return Use(NewBlock(block), bytes, block_bytes);
}

bool CachingHeap::ShouldSplit(const Block& block, uint64_t block_bytes) const {
  const uint64_t rest_bytes = block.bytes - block_bytes;
  if (block.pool == kSmallPool) return rest_bytes >= kQuantumBytes;
  return block_bytes < options_.max_split_bytes &&
         rest_bytes > kLargestSmallBlockBytes;
}

uint64_t CachingHeap::Use(Index index, uint64_t bytes, uint64_t block_bytes) {
  if (ShouldSplit(blocks_[index], block_bytes)) {
    Block rest = blocks_[index];
    rest.address += block_bytes;
    rest.bytes -= block_bytes;
    rest.previous = index;
    const Index rest_index = NewBlock(rest);
    if (rest.next != kNone) blocks_[rest.next].previous = rest_index;
    blocks_[index].next = rest_index;
    blocks_[index].bytes = block_bytes;
    InsertFree(rest_index);
  }
  Block& block = blocks_[index];
  block.is_live = true;
  block.requested_bytes = bytes;
  live_bytes_ += bytes;
  Segment& segment = segments_[block.segment];
  if (segment.live_blocks++ == 0) used_granules_ += segment.granules;
  live_blocks_.emplace(block.address, index);
  return block.address;
}

void CachingHeap::JoinNext(Index index) {
  Block& block = blocks_[index];
  const Index joined = block.next;
  block.bytes += blocks_[joined].bytes;
  block.next = blocks_[joined].next;
  if (block.next != kNone) blocks_[block.next].previous = index;
  unused_blocks_.push_back(joined);
}

bool CachingHeap::Free(uint64_t address) {
  const auto live = live_blocks_.find(address);
  if (live == live_blocks_.end()) return false;
  Index index = live->second;
  live_blocks_.erase(live);
  Block& block = blocks_[index];
  live_bytes_ -= block.requested_bytes;
  Segment& segment = segments_[block.segment];
  if (--segment.live_blocks == 0) used_granules_ -= segment.granules;
  block.is_live = false;
  if (block.next != kNone && !blocks_[block.next].is_live) {
    EraseFree(block.next);
    JoinNext(index);
  }
  if (block.previous != kNone && !blocks_[block.previous].is_live) {
    index = block.previous;
    EraseFree(index);
    JoinNext(index);
  }
  InsertFree(index);
  return true;
}

void CachingHeap::ReleaseSegment(Index index) {
  EraseFree(index);
  const Block& block = blocks_[index];
  const uint64_t granules = segments_[block.segment].granules;
  held_granules_ -= granules;
  ledger_->ChargeRelease(granules);
  addresses_.Give({block.address, block.bytes},
                  addresses_.Around(block.address));
  unused_segments_.push_back(block.segment);
  unused_blocks_.push_back(index);
}

bool CachingHeap::ReleaseAvailable(uint64_t bytes, uint32_t stream) {
  if (options_.max_split_bytes == CachingOptions().max_split_bytes) {
    return false;
  }
  const uint64_t block_bytes = BlockBytes(bytes);
  const uint64_t least_bytes = std::max(block_bytes, options_.max_split_bytes);
  auto& segments = pools_[PoolFor(block_bytes)].free_segments;
  auto found = segments.lower_bound({stream, kNone, least_bytes, 0});
  if (found != segments.end() && found->stream == stream) {
    ReleaseSegment(found->block);
    return true;
  }
  uint64_t released_bytes = 0;
  while (released_bytes < least_bytes && found != segments.begin()) {
    const Key largest = *std::prev(found);
    if (largest.stream != stream || largest.bytes < options_.max_split_bytes) {
      break;
    }
    ReleaseSegment(largest.block);
    released_bytes += largest.bytes;
    found = segments.lower_bound(largest);
  }
  return released_bytes >= least_bytes;
}

void CachingHeap::ReleaseCached(uint64_t granules) {
  uint64_t released_granules = 0;
  for (const uint8_t pool : {kLargePool, kSmallPool}) {
    auto& segments = pools_[pool].free_segments;
    while (released_granules < granules && !segments.empty()) {
      const Index block = segments.begin()->block;
      released_granules += segments_[blocks_[block].segment].granules;
      ReleaseSegment(block);
    }
  }
}

void CachingHeap::CollectGarbage(uint64_t threshold_granules) {
  if (held_granules_ <= threshold_granules) return;
  const uint64_t excess_granules = held_granules_ - threshold_granules;
  const Pool& pool = pools_[kLargePool];
  const auto age = [&](const Key& key) {
    return static_cast<double>(pool.requests - blocks_[key.block].cached_at);
  };
  double total_age = 0;
  for (const Key& key : pool.free_segments) total_age += age(key);
  uint64_t released_granules = 0;
  bool has_released = true;
  while (has_released && released_granules < excess_granules) {
    has_released = false;
    // The mean of what there is at the beginning of the pass. Segments of that
    // age all go, even beyond the excess, so that this is not needed soon.
    const double least_age =
        total_age / static_cast<double>(pool.free_segments.size());
    std::vector<Key> old;
    for (const Key& key : pool.free_segments) {
      if (age(key) >= least_age) old.push_back(key);
    }
    for (const Key& key : old) {
      has_released = true;
      total_age -= age(key);
      released_granules += segments_[blocks_[key.block].segment].granules;
      ReleaseSegment(key.block);
    }
  }
}

}  // namespace firn::bench

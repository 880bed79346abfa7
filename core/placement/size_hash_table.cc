// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/size_hash_table.h"

#include <bit>
#include <utility>

namespace firn {
namespace {

// The place of a new element: one given up earlier, or one more at the end.
template <typename T>
uint32_t NewIndex(std::vector<T>* elements, std::vector<uint32_t>* unused) {
  if (unused->empty()) {
    elements->emplace_back();
    return static_cast<uint32_t>(elements->size() - 1);
  }
  const uint32_t index = unused->back();
  unused->pop_back();
  return index;
}

}  // namespace

// Multiplicative hashing: the top bits of the product with 2^64 over the golden
// ratio. The number of buckets is a power of two.
uint32_t SizeHashTable::BucketOf(uint64_t bytes) const {
  const auto bits = static_cast<uint32_t>(std::countr_zero(buckets_.size()));
  return static_cast<uint32_t>(bytes * uint64_t{0x9e3779b97f4a7c15} >>
                               (64 - bits));
}

uint32_t* SizeHashTable::LinkTo(uint64_t bytes) {
  uint32_t* link = &buckets_[BucketOf(bytes)];
  while (*link != kNone && bins_[*link].bytes != bytes) {
    link = &bins_[*link].next_bin;
  }
  return link;
}

void SizeHashTable::Push(FreeRange block) {
  uint32_t bin = *LinkTo(block.bytes);
  if (bin == kNone) {
    bin = NewIndex(&bins_, &unused_bins_);
    ++bins_count_;
    if (bins_count_ * 4 > buckets_.size() * 3) DoubleBuckets();
    // After growing: what the link pointed into may have moved.
    bins_[bin] = {block.bytes, kNone, kNone};
    *LinkTo(block.bytes) = bin;
  }
  const uint32_t node = NewIndex(&blocks_, &unused_blocks_);
  blocks_[node] = {block.start, bins_[bin].first_block};
  bins_[bin].first_block = node;
  ++blocks_count_;
}

std::optional<uint64_t> SizeHashTable::Pop(uint64_t bytes) {
  uint32_t* const link = LinkTo(bytes);
  if (*link == kNone) return std::nullopt;
  const uint32_t bin = *link;
  const uint32_t node = bins_[bin].first_block;
  bins_[bin].first_block = blocks_[node].next_block;
  unused_blocks_.push_back(node);
  --blocks_count_;
  if (bins_[bin].first_block == kNone) {
    *link = bins_[bin].next_bin;
    unused_bins_.push_back(bin);
    --bins_count_;
  }
  return blocks_[node].start;
}

std::vector<FreeRange> SizeHashTable::Drain() {
  std::vector<FreeRange> drained;
  drained.reserve(blocks_count_);
  for (const uint32_t bucket : buckets_) {
    for (uint32_t bin = bucket; bin != kNone; bin = bins_[bin].next_bin) {
      for (uint32_t node = bins_[bin].first_block; node != kNone;
           node = blocks_[node].next_block) {
        drained.push_back({blocks_[node].start, bins_[bin].bytes});
      }
    }
  }
  buckets_.assign(kFirstBuckets, kNone);
  bins_.clear();
  unused_bins_.clear();
  blocks_.clear();
  unused_blocks_.clear();
  bins_count_ = 0;
  blocks_count_ = 0;
  return drained;
}

void SizeHashTable::DoubleBuckets() {
  std::vector<uint32_t> chains(buckets_.size() * 2, kNone);
  chains.swap(buckets_);
  for (uint32_t bin : chains) {
    while (bin != kNone) {
      uint32_t& bucket = buckets_[BucketOf(bins_[bin].bytes)];
      const uint32_t next = std::exchange(bins_[bin].next_bin, bucket);
      bucket = bin;
      bin = next;
    }
  }
}

}  // namespace firn

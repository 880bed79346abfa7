// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/fragmentation_census.h"

#include <algorithm>

#include "absl/numeric/bits.h"
#include "firn/compaction/fragmentation.h"
#include "firn/vmm/units.h"

namespace firn {
namespace {

// Buckets go up to a quantum, two quanta, four and so on.
size_t BytesToBucket(uint64_t bytes) {
  constexpr int kFirstWidth = absl::countr_zero(kQuantumBytes);
  const int width =
      bytes > 1 ? static_cast<int>(absl::bit_width(bytes - 1)) : 0;
  return static_cast<size_t>(std::max(0, width - kFirstWidth));
}

}  // namespace

void FragmentationCensus::Add(uint64_t bytes, uint64_t count, Sizes* sizes) {
  SizeBucket& bucket = (*sizes)[std::min(BytesToBucket(bytes), kBuckets - 1)];
  bucket.pieces += count;
  bucket.sum_bytes += bytes * count;
}

void FragmentationCensus::AddBlock(uint64_t requested_bytes,
                                   uint64_t extent_bytes) {
  if (requested_bytes == 0) {
    kept_bytes_ += extent_bytes;
    return;
  }
  ++live_blocks_;
  requested_bytes_ += requested_bytes;
  allocated_bytes_ += extent_bytes;
  Add(requested_bytes, 1, &live_);
}

void FragmentationCensus::AddFreePieces(uint64_t piece_bytes, uint64_t count) {
  if (count == 0 || piece_bytes == 0) return;
  free_pieces_ += count;
  free_bytes_ += piece_bytes * count;
  largest_free_bytes_ = std::max(largest_free_bytes_, piece_bytes);
  Add(piece_bytes, count, &free_);
}

std::vector<SizeBucket> FragmentationCensus::ToBuckets(const Sizes& sizes) {
  size_t count = sizes.size();
  while (count > 0 && sizes[count - 1].pieces == 0) --count;
  std::vector<SizeBucket> buckets(sizes.begin(),
                                  sizes.begin() + static_cast<int>(count));
  for (size_t i = 0; i < count; ++i) {
    buckets[i].up_to_bytes = uint64_t{kQuantumBytes} << i;
  }
  return buckets;
}

FragmentationStats FragmentationCensus::ToStats() const {
  FragmentationStats stats;
  stats.live_blocks = live_blocks_;
  stats.requested_bytes = requested_bytes_;
  stats.allocated_bytes = allocated_bytes_;
  stats.kept_bytes = kept_bytes_;
  stats.free_bytes = free_bytes_;
  stats.used_bytes = used_bytes_;
  stats.lost_bytes =
      used_bytes_ -
      std::min(used_bytes_, allocated_bytes_ + kept_bytes_ + free_bytes_);
  const MemoryUse use = {requested_bytes_, allocated_bytes_, used_bytes_};
  stats.waste_bytes = use.WasteBytes();
  stats.utilization = use.Utilization();
  stats.internal_fragmentation = use.InternalFragmentation();
  stats.free_pieces = free_pieces_;
  stats.largest_free_bytes = largest_free_bytes_;
  if (free_bytes_ > 0) {
    stats.external_fragmentation =
        static_cast<double>(free_bytes_ - largest_free_bytes_) /
        static_cast<double>(free_bytes_);
  }
  stats.live_sizes = ToBuckets(live_);
  stats.free_sizes = ToBuckets(free_);
  return stats;
}

}  // namespace firn

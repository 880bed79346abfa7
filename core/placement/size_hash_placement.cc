// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/size_hash_placement.h"

#include <algorithm>

#include "firn/core/placement/aligned_take.h"
#include "firn/core/placement/size_rounding.h"
#include "firn/core/placement_kind.h"
#include "firn/vmm/units.h"

namespace firn {

absl::string_view SizeHashPlacement::name() const {
  return PlacementKindName(PlacementKind::kSizeHash);
}

Placement::Growth SizeHashPlacement::GrowthFor(uint64_t bytes,
                                               uint64_t alignment_bytes) const {
  return {RoundUp(CapRequest(bytes), granule_bytes_),
          std::max(granule_bytes_, alignment_bytes)};
}

void SizeHashPlacement::Give(FreeRange granules, uint64_t /*wanted_bytes*/) {
  own_.Give(granules);
  ranges_.Give(granules);
  free_bytes_ += granules.bytes;
  given_last_ = granules;
}

std::optional<FreeRange> SizeHashPlacement::Take(uint64_t bytes,
                                                 uint64_t alignment_bytes) {
  if (std::max(bytes, alignment_bytes) > kLargestRequestBytes) {
    return std::nullopt;
  }
  const uint64_t block_bytes = RoundUp(bytes, kQuantumBytes);
  if (block_bytes > free_bytes_) return std::nullopt;
  const std::optional<uint64_t> start = Place(block_bytes, alignment_bytes);
  if (!start.has_value()) return std::nullopt;
  free_bytes_ -= block_bytes;
  return FreeRange{*start, block_bytes};
}

std::optional<uint64_t> SizeHashPlacement::Place(uint64_t block_bytes,
                                                 uint64_t alignment_bytes) {
  if (const auto exact = bins_.Pop(block_bytes); exact.has_value()) {
    if (*exact % alignment_bytes == 0) return exact;
    bins_.Push({*exact, block_bytes});
  }
  const auto place_in_ranges = [&] {
    return TakeAligned(block_bytes, alignment_bytes, kQuantumBytes, given_last_,
                       &ranges_);
  };
  const std::optional<uint64_t> start = place_in_ranges();
  if (start.has_value() || bins_.blocks() == 0) return start;
  Coalesce();
  return place_in_ranges();
}

void SizeHashPlacement::Coalesce() {
  if (bins_.blocks() == 0) return;
  for (const FreeRange& block : bins_.Drain()) ranges_.Give(block);
}

void SizeHashPlacement::Free(FreeRange extent) {
  own_.ForEachPart(extent, [this](FreeRange part) {
    bins_.Push(part);
    free_bytes_ += part.bytes;
  });
}

void SizeHashPlacement::Withdraw(FreeRange granules) {
  Coalesce();
  own_.Remove(granules);
  free_bytes_ -= ranges_.Remove(granules);
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/buddy_placement.h"

#include <algorithm>
#include <bit>

#include "firn/core/placement/size_rounding.h"
#include "firn/core/placement_kind.h"

namespace firn {

absl::string_view BuddyPlacement::name() const {
  return PlacementKindName(PlacementKind::kBuddy);
}

Placement::Growth BuddyPlacement::GrowthFor(uint64_t bytes,
                                            uint64_t alignment_bytes) const {
  const uint64_t block_bytes =
      std::max(std::bit_ceil(CapRequest(bytes)), granule_bytes_);
  return {block_bytes, std::max(block_bytes, alignment_bytes)};
}

void BuddyPlacement::Give(FreeRange granules, uint64_t /*wanted_bytes*/) {
  own_.Give(granules);
  free_.GiveRange(granules);
  given_last_ = granules;
}

std::optional<FreeRange> BuddyPlacement::Take(uint64_t bytes,
                                              uint64_t alignment_bytes) {
  if (std::max(bytes, alignment_bytes) > kLargestRequestBytes) {
    return std::nullopt;
  }
  const uint32_t order = BuddyArena::OrderFor(bytes);
  const uint64_t block_bytes = BuddyArena::BytesOf(order);
  if (alignment_bytes <= block_bytes) {
    if (!free_.HasFree(order)) return std::nullopt;
    return FreeRange{free_.Take(order), block_bytes};
  }
  const std::optional<uint64_t> start = TakeAligned(order, alignment_bytes);
  if (!start.has_value()) return std::nullopt;
  return FreeRange{*start, block_bytes};
}

std::optional<uint64_t> BuddyPlacement::TakeAligned(uint32_t order,
                                                    uint64_t alignment_bytes) {
  const uint64_t block_bytes = BuddyArena::BytesOf(order);
  const uint32_t aligned_order = BuddyArena::OrderFor(alignment_bytes);
  // A smaller block may be aligned by chance; one as long as the alignment is.
  for (uint32_t from = order; from < aligned_order; ++from) {
    const std::optional<uint64_t> start =
        free_.TakeExact(from, alignment_bytes);
    if (!start.has_value()) continue;
    free_.GiveRange(
        {*start + block_bytes, BuddyArena::BytesOf(from) - block_bytes});
    return start;
  }
  if (free_.HasFree(aligned_order)) {
    const uint64_t start = free_.Take(aligned_order);
    free_.GiveRange({start + block_bytes, alignment_bytes - block_bytes});
    return start;
  }
  // What was given for such a request may be shorter than its alignment.
  const uint64_t start = RoundUp(given_last_.start, alignment_bytes);
  if (!free_.TakeAt({start, order})) return std::nullopt;
  return start;
}

void BuddyPlacement::Free(FreeRange extent) {
  own_.ForEachPart(extent, [this](FreeRange part) { free_.GiveRange(part); });
}

void BuddyPlacement::Withdraw(FreeRange granules) {
  own_.Remove(granules);
  free_.RemoveRange(granules);
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/range_placement.h"

#include <algorithm>

#include "firn/core/placement/aligned_take.h"
#include "firn/core/placement/size_rounding.h"
#include "firn/core/placement_kind.h"
#include "firn/vmm/units.h"

namespace firn {

template <typename Ranges>
absl::string_view RangePlacement<Ranges>::name() const {
  return PlacementKindName(Ranges::kKind);
}

template <typename Ranges>
Placement::Growth RangePlacement<Ranges>::GrowthFor(
    uint64_t bytes, uint64_t alignment_bytes) const {
  return {RoundUp(CapRequest(bytes), granule_bytes_),
          std::max(granule_bytes_, alignment_bytes)};
}

template <typename Ranges>
void RangePlacement<Ranges>::Give(FreeRange granules,
                                  uint64_t /*wanted_bytes*/) {
  own_.Give(granules);
  free_.Give(granules);
  given_last_ = granules;
}

template <typename Ranges>
std::optional<FreeRange> RangePlacement<Ranges>::Take(
    uint64_t bytes, uint64_t alignment_bytes) {
  if (std::max(bytes, alignment_bytes) > kLargestRequestBytes) {
    return std::nullopt;
  }
  const uint64_t block_bytes = RoundUp(bytes, kQuantumBytes);
  const std::optional<uint64_t> start = TakeAligned(
      block_bytes, alignment_bytes, kQuantumBytes, given_last_, &free_);
  if (!start.has_value()) return std::nullopt;
  return FreeRange{*start, block_bytes};
}

template <typename Ranges>
void RangePlacement<Ranges>::Free(FreeRange extent) {
  own_.ForEachPart(extent, [this](FreeRange part) { free_.Give(part); });
}

template <typename Ranges>
void RangePlacement<Ranges>::Withdraw(FreeRange granules) {
  own_.Remove(granules);
  free_.Remove(granules);
}

template class RangePlacement<FirstFitRanges>;
template class RangePlacement<BestFitRanges>;

}  // namespace firn

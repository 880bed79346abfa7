// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/arena_policy.h"

#include <optional>

#include "bench/policies/policy_errors.h"
#include "firn/core/placement/make_placement.h"
#include "firn/vmm/units.h"

namespace firn::bench {

ArenaPolicy::ArenaPolicy(PlacementKind kind, const PolicyOptions& options)
    : extent_(options.granule_bytes, options.cost),
      placement_(MakePlacement(kind, TierBounds{}, options.granule_bytes)) {}

absl::StatusOr<uint64_t> ArenaPolicy::Allocate(uint64_t bytes,
                                               uint32_t /*stream*/) {
  std::optional<FreeRange> extent = placement_->Take(bytes, kQuantumBytes);
  if (!extent.has_value() && GrowFor(bytes)) {
    extent = placement_->Take(bytes, kQuantumBytes);
  }
  if (!extent.has_value()) return NoRoom();
  extent_.GrowTo(EndOf(*extent, bytes));
  blocks_.emplace(extent->start, Block{bytes, extent->bytes});
  live_bytes_ += bytes;
  return extent->start;
}

absl::Status ArenaPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return NotABlock(address);
  placement_->Free({address, block->second.extent_bytes});
  live_bytes_ -= block->second.bytes;
  blocks_.erase(block);
  return absl::OkStatus();
}

}  // namespace firn::bench

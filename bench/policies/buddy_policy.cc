// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/buddy_policy.h"

#include <bit>

#include "firn/core/placement_kind.h"

namespace firn::bench {

BuddyPolicy::BuddyPolicy(const PolicyOptions& options)
    : ArenaPolicy(PlacementKind::kBuddy, options),
      capacity_bytes_(options.capacity_bytes) {}

bool BuddyPolicy::GrowFor(uint64_t bytes) {
  const uint64_t top_level_bytes =
      std::bit_floor(capacity_bytes_ - opened_bytes_);
  if (bytes > top_level_bytes) return false;
  placement().Give({opened_bytes_, top_level_bytes}, bytes);
  opened_bytes_ += top_level_bytes;
  return true;
}

}  // namespace firn::bench

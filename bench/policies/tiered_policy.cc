// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/tiered_policy.h"

#include "bench/policies/policy_errors.h"
#include "firn/core/placement/size_rounding.h"
#include "firn/core/placement/slab_classes.h"

namespace firn::bench {
namespace {

// The addresses of the slabs are below, those of direct blocks above the ones
// that buddies can have.
constexpr uint64_t kBuddyBase = uint64_t{1} << 61;

}  // namespace

TieredPolicy::TieredPolicy(const PolicyOptions& options)
    : budget_(options.capacity_bytes, options.granule_bytes, options.cost),
      slab_tier_(&budget_),
      buddy_tier_(kLargestBuddyBytes, &budget_),
      direct_(options.granule_bytes) {}

bool TieredPolicy::MakeRoom(uint64_t granules) {
  if (granules > budget_.free_granules() + slab_tier_.kept_granules() +
                     buddy_tier_.kept_granules()) {
    return false;
  }
  while (granules > budget_.free_granules()) {
    if (slab_tier_.kept_granules() > 0) {
      slab_tier_.GiveKeptBack();
    } else {
      buddy_tier_.GiveKeptBack();
    }
  }
  return true;
}

absl::StatusOr<uint64_t> TieredPolicy::Place(uint64_t bytes) {
  if (bytes < kLeastBuddyBytes) {
    const SlabClass size_class = SlabClassOf(bytes);
    if (!MakeRoom(slab_tier_.MissingGranules(size_class))) return NoRoom();
    return slab_tier_.Allocate(size_class, bytes);
  }
  if (bytes <= kLargestBuddyBytes) {
    if (!MakeRoom(buddy_tier_.MissingGranules(bytes))) return NoRoom();
    return kBuddyBase + buddy_tier_.Allocate(bytes);
  }
  const uint64_t granules = DivideUp(bytes, budget_.granule_bytes());
  if (!MakeRoom(granules)) return NoRoom();
  budget_.Take(granules);
  direct_granules_ += granules;
  return direct_.Add(bytes);
}

absl::StatusOr<uint64_t> TieredPolicy::Allocate(uint64_t bytes,
                                                uint32_t /*stream*/) {
  absl::StatusOr<uint64_t> address = Place(bytes);
  if (address.ok()) live_bytes_ += bytes;
  return address;
}

absl::Status TieredPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  uint64_t bytes = 0;
  if (DirectBlocks::MayHold(address)) {
    bytes = direct_.Remove(address);
    const uint64_t granules = DivideUp(bytes, budget_.granule_bytes());
    budget_.Give(granules);
    direct_granules_ -= granules;
  } else if (address >= kBuddyBase) {
    bytes = buddy_tier_.Free(address - kBuddyBase);
  } else {
    bytes = slab_tier_.Free(address);
  }
  if (bytes == 0) return NotABlock(address);
  live_bytes_ -= bytes;
  return absl::OkStatus();
}

PolicyUsage TieredPolicy::usage() const {
  const uint64_t used_granules = slab_tier_.used_granules() +
                                 buddy_tier_.used_granules() + direct_granules_;
  const uint64_t held_granules = budget_.held_granules();
  return {used_granules * budget_.granule_bytes(),
          held_granules * budget_.granule_bytes(), held_granules};
}

}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/buddy_policy.h"

#include "bench/policies/policy_errors.h"
#include "bench/policies/size_rounding.h"

namespace firn::bench {

BuddyPolicy::BuddyPolicy(const PolicyOptions& options)
    : capacity_bytes_(options.capacity_bytes),
      extent_(options.granule_bytes, options.cost) {}

bool BuddyPolicy::OpenTopLevelBlock(uint32_t order) {
  const uint64_t closed_bytes = capacity_bytes_ - opened_bytes_;
  if (closed_bytes < BuddyArena::BytesOf(order)) return false;
  const uint32_t top_order = BuddyArena::LargestOrderWithin(closed_bytes);
  buddies_.AddRoot(opened_bytes_, top_order);
  opened_bytes_ += BuddyArena::BytesOf(top_order);
  return true;
}

absl::StatusOr<uint64_t> BuddyPolicy::Allocate(uint64_t bytes,
                                               uint32_t /*stream*/) {
  if (bytes > kLargestRequestBytes) return NoRoom();
  const uint32_t order = BuddyArena::OrderFor(bytes);
  if (!buddies_.HasFree(order) && !OpenTopLevelBlock(order)) return NoRoom();
  const uint64_t address = buddies_.Allocate(bytes);
  extent_.GrowTo(address + BuddyArena::BytesOf(order));
  live_bytes_ += bytes;
  return address;
}

absl::Status BuddyPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  const BuddyArena::FreedBlock freed = buddies_.Free(address);
  if (freed.bytes == 0) return NotABlock(address);
  live_bytes_ -= freed.bytes;
  return absl::OkStatus();
}

}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/best_fit_policy.h"

#include "absl/types/optional.h"
#include "bench/policies/policy_errors.h"
#include "bench/policies/size_rounding.h"

namespace firn::bench {

BestFitPolicy::BestFitPolicy(const PolicyOptions& options)
    : extent_(options.granule_bytes, options.cost) {
  free_.Give({0, options.capacity_bytes});
}

absl::StatusOr<uint64_t> BestFitPolicy::Allocate(uint64_t bytes,
                                                 uint32_t /*stream*/) {
  if (bytes > kLargestRequestBytes) return NoRoom();
  const uint64_t block_bytes = RoundUp(bytes, kBlockAlignmentBytes);
  const absl::optional<uint64_t> address = free_.Take(block_bytes);
  if (!address.has_value()) return NoRoom();
  extent_.GrowTo(*address + block_bytes);
  blocks_.emplace(*address, bytes);
  live_bytes_ += bytes;
  return *address;
}

absl::Status BestFitPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return NotABlock(address);
  free_.Give({address, RoundUp(block->second, kBlockAlignmentBytes)});
  live_bytes_ -= block->second;
  blocks_.erase(block);
  return absl::OkStatus();
}

}  // namespace firn::bench

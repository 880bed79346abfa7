// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/free_list_policy.h"

#include "bench/policies/policy_errors.h"
#include "bench/policies/size_rounding.h"

namespace firn::bench {

FreeListPolicy::FreeListPolicy(const PolicyOptions& options)
    : extent_(options.granule_bytes, options.cost) {
  free_.Insert({0, options.capacity_bytes});
}

absl::StatusOr<uint64_t> FreeListPolicy::Allocate(uint64_t bytes,
                                                  uint32_t /*stream*/) {
  if (bytes > kLargestRequestBytes) return NoRoom();
  const uint64_t block_bytes = RoundUp(bytes, kBlockAlignmentBytes);
  const FreeRangeTree::Node node = free_.FirstFit(block_bytes);
  if (node == FreeRangeTree::kNone) return NoRoom();
  const uint64_t address = free_.range(node).start;
  free_.Take(node, address, block_bytes);
  extent_.GrowTo(address + block_bytes);
  blocks_.emplace(address, bytes);
  live_bytes_ += bytes;
  return address;
}

absl::Status FreeListPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return NotABlock(address);
  free_.Give({address, RoundUp(block->second, kBlockAlignmentBytes)},
             free_.Around(address));
  live_bytes_ -= block->second;
  blocks_.erase(block);
  return absl::OkStatus();
}

}  // namespace firn::bench

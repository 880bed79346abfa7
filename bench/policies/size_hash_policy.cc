// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/size_hash_policy.h"

#include <utility>

#include "bench/policies/policy_errors.h"
#include "firn/core/placement/size_rounding.h"
#include "firn/vmm/units.h"

namespace firn::bench {

SizeHashPolicy::SizeHashPolicy(const PolicyOptions& options)
    : capacity_bytes_(options.capacity_bytes),
      extent_(options.granule_bytes, options.cost) {}

std::optional<uint64_t> SizeHashPolicy::Place(uint64_t block_bytes) {
  if (const auto exact = bins_.Pop(block_bytes); exact.has_value()) {
    return exact;
  }
  if (end_ < capacity_bytes_) {
    if (block_bytes <= capacity_bytes_ - end_) {
      return std::exchange(end_, end_ + block_bytes);
    }
    ranges_.Give({end_, capacity_bytes_ - end_});
    end_ = capacity_bytes_;
  }
  if (const auto best = ranges_.Take(block_bytes); best.has_value()) {
    return best;
  }
  Coalesce();
  return ranges_.Take(block_bytes);
}

void SizeHashPolicy::Coalesce() {
  if (bins_.blocks() == 0) return;
  for (const FreeRange& block : bins_.Drain()) ranges_.Give(block);
}

absl::StatusOr<uint64_t> SizeHashPolicy::Allocate(uint64_t bytes,
                                                  uint32_t /*stream*/) {
  if (bytes > capacity_bytes_) return NoRoom();
  const uint64_t block_bytes = RoundUp(bytes, kQuantumBytes);
  if (block_bytes > capacity_bytes_ - live_block_bytes_) return NoRoom();
  const std::optional<uint64_t> address = Place(block_bytes);
  if (!address.has_value()) return NoRoom();
  extent_.GrowTo(*address + block_bytes);
  blocks_.emplace(*address, bytes);
  live_bytes_ += bytes;
  live_block_bytes_ += block_bytes;
  return *address;
}

absl::Status SizeHashPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return NotABlock(address);
  const uint64_t block_bytes = RoundUp(block->second, kQuantumBytes);
  bins_.Push({address, block_bytes});
  live_block_bytes_ -= block_bytes;
  live_bytes_ -= block->second;
  blocks_.erase(block);
  return absl::OkStatus();
}

}  // namespace firn::bench

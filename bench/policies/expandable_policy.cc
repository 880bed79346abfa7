// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/expandable_policy.h"

#include <algorithm>

#include "bench/policies/policy_errors.h"
#include "firn/core/placement/size_rounding.h"
#include "firn/vmm/units.h"

namespace firn::bench {
namespace {

// Requests up to this are served from the pool of small blocks.
constexpr uint64_t kLargestSmallBytes = uint64_t{1} << 20;

// The original reserves 9/8 of the device per segment and opens another
// segment when that is full; one range that no trace fills does the same.
constexpr uint64_t kPoolBytesPerCapacity = 16;

}  // namespace

ExpandablePolicy::ExpandablePolicy(const PolicyOptions& options)
    : granule_bytes_(options.granule_bytes),
      capacity_granules_(options.capacity_bytes / options.granule_bytes),
      // Bounded so that addresses suffice.
      pool_bytes_(std::min(options.capacity_bytes, kLargestRequestBytes) *
                  kPoolBytesPerCapacity),
      ledger_(options.cost) {}

uint32_t ExpandablePolicy::PoolFor(uint64_t block_bytes, uint32_t stream) {
  const auto [pool, is_new] = pools_of_stream_.try_emplace(
      stream, static_cast<uint32_t>(pools_.size()));
  if (is_new) {
    for (int i = 0; i < 2; ++i) {
      pools_.emplace_back(pools_.size() * pool_bytes_, pool_bytes_,
                          granule_bytes_);
    }
  }
  return pool->second + (block_bytes > kLargestSmallBytes ? 1 : 0);
}

absl::StatusOr<uint64_t> ExpandablePolicy::Allocate(uint64_t bytes,
                                                    uint32_t stream) {
  if (bytes > kLargestRequestBytes) return NoRoom();
  const uint64_t block_bytes = RoundUp(bytes, kQuantumBytes);
  ExpandablePool& pool = pools_[PoolFor(block_bytes, stream)];
  const ExpandablePool::Placement placement = pool.Find(block_bytes);
  // On shortage the original gives back its empty granules; here there are
  // none left to give back.
  if (!placement.found() ||
      placement.new_granules > capacity_granules_ - mapped_granules_) {
    return NoRoom();
  }
  pool.Take(placement, block_bytes);
  ledger_.ChargeNewRun(placement.new_granules);
  mapped_granules_ += placement.new_granules;
  blocks_.emplace(placement.address, bytes);
  live_bytes_ += bytes;
  return placement.address;
}

absl::Status ExpandablePolicy::Free(uint64_t address, uint32_t /*stream*/) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return NotABlock(address);
  ExpandablePool& pool = pools_[address / pool_bytes_];
  const uint64_t emptied =
      pool.Give(address, RoundUp(block->second, kQuantumBytes));
  ledger_.ChargeRelease(emptied);
  mapped_granules_ -= emptied;
  live_bytes_ -= block->second;
  blocks_.erase(block);
  return absl::OkStatus();
}

PolicyUsage ExpandablePolicy::usage() const {
  const uint64_t mapped_bytes = mapped_granules_ * granule_bytes_;
  return {mapped_bytes, mapped_bytes, mapped_granules_};
}

PolicyReport ExpandablePolicy::Report() {
  return ledger_.Report(live_bytes_, granule_bytes_);
}

}  // namespace firn::bench

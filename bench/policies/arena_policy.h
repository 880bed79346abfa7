// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One arena that only grows, with blocks cut from its free ranges: free_list
// and best_fit, which differ in the range they cut from.

#ifndef FIRN_BENCH_POLICIES_ARENA_POLICY_H_
#define FIRN_BENCH_POLICIES_ARENA_POLICY_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "bench/policies/arena_extent.h"
#include "bench/policies/best_fit_ranges.h"
#include "bench/policies/first_fit_ranges.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_errors.h"
#include "bench/policies/policy_options.h"
#include "bench/policies/size_rounding.h"

namespace firn::bench {

// `Ranges` names the policy (kPolicyName), gives the address of so many free
// bytes or nothing (Take), and takes a range back, joined with its free
// neighbours at once (Give).
template <typename Ranges>
class ArenaPolicy : public Policy {
 public:
  explicit ArenaPolicy(const PolicyOptions& options)
      : extent_(options.granule_bytes, options.cost) {
    free_.Give({0, options.capacity_bytes});
  }

  absl::string_view name() const override { return Ranges::kPolicyName; }

  absl::StatusOr<uint64_t> Allocate(uint64_t bytes,
                                    uint32_t /*stream*/) override {
    if (bytes > kLargestRequestBytes) return NoRoom();
    const uint64_t block_bytes = RoundUp(bytes, kBlockAlignmentBytes);
    const absl::optional<uint64_t> address = free_.Take(block_bytes);
    if (!address.has_value()) return NoRoom();
    extent_.GrowTo(*address + block_bytes);
    blocks_.emplace(*address, bytes);
    live_bytes_ += bytes;
    return *address;
  }

  absl::Status Free(uint64_t address, uint32_t /*stream*/) override {
    const auto block = blocks_.find(address);
    if (block == blocks_.end()) return NotABlock(address);
    free_.Give({address, RoundUp(block->second, kBlockAlignmentBytes)});
    live_bytes_ -= block->second;
    blocks_.erase(block);
    return absl::OkStatus();
  }

  PolicyUsage usage() const override { return extent_.usage(); }
  PolicyReport Report() override { return extent_.Report(live_bytes_); }

 private:
  ArenaExtent extent_;
  // All of the capacity at first; the arena's untouched end is part of it.
  Ranges free_;
  // Requested bytes by address.
  absl::flat_hash_map<uint64_t, uint64_t> blocks_;
  uint64_t live_bytes_ = 0;
};

// The classical free list: the lowest range that is long enough.
using FreeListPolicy = ArenaPolicy<FirstFitRanges>;
// The shortest range that is long enough, of equals the lowest.
using BestFitPolicy = ArenaPolicy<BestFitRanges>;

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_ARENA_POLICY_H_

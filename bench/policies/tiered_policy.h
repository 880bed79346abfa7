// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Three tiers by requested size, over one capacity:
//   below 1 MiB         slabs (SlabTier)
//   1 MiB to 256 MiB    buddies within chunks (BuddyTier)
//   above 256 MiB       direct: granules of its own, created and mapped for
//                       each block, unmapped and released when it is freed
// The first two keep what becomes free, and when an allocation of any tier
// lacks granules give back empty slabs and then free chunks until it has them,
// if there are as many.

#ifndef FIRN_BENCH_POLICIES_TIERED_POLICY_H_
#define FIRN_BENCH_POLICIES_TIERED_POLICY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/buddy_tier.h"
#include "bench/policies/direct_blocks.h"
#include "bench/policies/granule_budget.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"
#include "bench/policies/slab_tier.h"

namespace firn::bench {

// used = slabs with a live block, and granules of the other tiers with a live
// byte.
class TieredPolicy : public Policy {
 public:
  static constexpr uint64_t kLeastBuddyBytes = uint64_t{1} << 20;
  static constexpr uint64_t kLargestBuddyBytes = uint64_t{256} << 20;

  explicit TieredPolicy(const PolicyOptions& options);

  absl::string_view name() const override { return "tiered"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override;
  PolicyReport Report() override { return budget_.Report(live_bytes_); }

 private:
  // The address of a new block, or ResourceExhausted.
  absl::StatusOr<uint64_t> Place(uint64_t bytes);
  // Has tiers give back what they keep until the budget has so many granules;
  // false, and nothing is given back, if that is not enough.
  bool MakeRoom(uint64_t granules);

  GranuleBudget budget_;
  SlabTier slab_tier_;
  BuddyTier buddy_tier_;
  DirectBlocks direct_;
  uint64_t direct_granules_ = 0;
  uint64_t live_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_TIERED_POLICY_H_

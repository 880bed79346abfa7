// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One arena of binary buddies.

#ifndef FIRN_BENCH_POLICIES_BUDDY_POLICY_H_
#define FIRN_BENCH_POLICIES_BUDDY_POLICY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/arena_extent.h"
#include "bench/policies/buddy_arena.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"

namespace firn::bench {

// A capacity that is no power of two is managed as top-level blocks: its
// binary digits from the largest down, each at a multiple of its own size. The
// next top-level block is opened when no free block is large enough.
class BuddyPolicy : public Policy {
 public:
  explicit BuddyPolicy(const PolicyOptions& options);

  absl::string_view name() const override { return "buddy"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override { return extent_.usage(); }
  PolicyReport Report() override { return extent_.Report(live_bytes_); }

 private:
  // Makes the next top-level block free, if it has at least `order`.
  bool OpenTopLevelBlock(uint32_t order);

  const uint64_t capacity_bytes_;
  uint64_t opened_bytes_ = 0;
  ArenaExtent extent_;
  BuddyArena buddies_;
  uint64_t live_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_BUDDY_POLICY_H_

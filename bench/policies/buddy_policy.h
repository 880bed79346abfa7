// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One arena of binary buddies.

#ifndef FIRN_BENCH_POLICIES_BUDDY_POLICY_H_
#define FIRN_BENCH_POLICIES_BUDDY_POLICY_H_

#include <cstdint>

#include "bench/policies/arena_policy.h"
#include "bench/policies/policy_options.h"

namespace firn::bench {

// A capacity that is no power of two is managed as top-level blocks: its
// binary digits from the largest down, each at a multiple of its own size. The
// next top-level block is opened when no free block is large enough.
class BuddyPolicy : public ArenaPolicy {
 public:
  explicit BuddyPolicy(const PolicyOptions& options);

 private:
  // Makes the next top-level block free, if it is as large as that.
  bool GrowFor(uint64_t bytes) override;

  const uint64_t capacity_bytes_;
  uint64_t opened_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_BUDDY_POLICY_H_

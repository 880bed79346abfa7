// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the policies share.

#ifndef FIRN_TESTS_BENCH_POLICIES_POLICY_TESTING_H_
#define FIRN_TESTS_BENCH_POLICIES_POLICY_TESTING_H_

#include <cstdint>

#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"

namespace firn::bench {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;

// Profile kFast charges round sums: 8 us a create, 1 a map, 20 a set-access and
// 1 a granule in it, 11.5 an unmap, 8 a release.
inline PolicyOptions Options(uint64_t capacity_bytes,
                             CostProfile cost = CostProfile::kFast) {
  PolicyOptions options;
  options.capacity_bytes = capacity_bytes;
  options.cost = cost;
  return options;
}

struct RandomBlocks {
  uint64_t seed = 1;
  int steps = 20'000;
  uint64_t allocate_percent = 52;
  uint64_t most_bytes_log2 = 26;
  uint32_t streams = 2;
  uint64_t capacity_bytes = 0;
  // Addresses from here on are mere numbers, of which none may come twice.
  uint64_t addresses_end = ~uint64_t{0};
};

// Allocates and frees blocks at random, and frees all that are left. Adds a
// failure for blocks that overlap, for used bytes below the live ones, for held
// bytes below the used ones or above the capacity, and if no allocation failed.
void RunRandomBlocks(const RandomBlocks& run, Policy* policy);

}  // namespace firn::bench

#endif  // FIRN_TESTS_BENCH_POLICIES_POLICY_TESTING_H_

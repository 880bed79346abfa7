// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Best fit in one arena: a block is cut from the bottom of the shortest free
// range that holds it (of equals the lowest); freed neighbours are joined at
// once.

#ifndef FIRN_BENCH_POLICIES_BEST_FIT_POLICY_H_
#define FIRN_BENCH_POLICIES_BEST_FIT_POLICY_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/arena_extent.h"
#include "bench/policies/best_fit_ranges.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"

namespace firn::bench {

class BestFitPolicy : public Policy {
 public:
  explicit BestFitPolicy(const PolicyOptions& options);

  absl::string_view name() const override { return "best_fit"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override { return extent_.usage(); }
  PolicyReport Report() override { return extent_.Report(live_bytes_); }

 private:
  ArenaExtent extent_;
  // All of the capacity at first; the arena's untouched end is part of it.
  BestFitRanges free_;
  // Requested bytes by address.
  absl::flat_hash_map<uint64_t, uint64_t> blocks_;
  uint64_t live_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_BEST_FIT_POLICY_H_

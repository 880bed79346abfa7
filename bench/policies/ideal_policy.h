// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The bound for every policy: live bytes packed without a gap, at no cost.

#ifndef FIRN_BENCH_POLICIES_IDEAL_POLICY_H_
#define FIRN_BENCH_POLICIES_IDEAL_POLICY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"

namespace firn::bench {

// used = held = the live bytes in whole granules; no driver calls.
class IdealPolicy : public Policy {
 public:
  explicit IdealPolicy(const PolicyOptions& options)
      : granule_bytes_(options.granule_bytes),
        capacity_bytes_(options.capacity_bytes) {}

  absl::string_view name() const override { return "ideal"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override;
  PolicyReport Report() override;

 private:
  const uint64_t granule_bytes_;
  const uint64_t capacity_bytes_;
  uint64_t live_bytes_ = 0;
  // Bytes of the block at each address, 0 where none is live. Addresses are
  // mere numbers of blocks here.
  std::vector<uint64_t> block_bytes_;
  std::vector<uint64_t> unused_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_IDEAL_POLICY_H_

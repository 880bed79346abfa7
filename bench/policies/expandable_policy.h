// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Expandable segments, as PyTorch's caching allocator has them: per stream one
// pool of small and one of large blocks, each one range of addresses that is
// mapped from the bottom as it is needed. Stronger than the original in that a
// granule without a live byte is unmapped and given back at once, not only on
// shortage, and in that large blocks use the replay's granule, too, not 20 MiB.

#ifndef FIRN_BENCH_POLICIES_EXPANDABLE_POLICY_H_
#define FIRN_BENCH_POLICIES_EXPANDABLE_POLICY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/driver_ledger.h"
#include "bench/policies/expandable_pool.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"

namespace firn::bench {

class ExpandablePolicy : public Policy {
 public:
  explicit ExpandablePolicy(const PolicyOptions& options);

  absl::string_view name() const override { return "expandable"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override;
  PolicyReport Report() override;

 private:
  uint32_t PoolFor(uint64_t block_bytes, uint32_t stream);

  const uint64_t granule_bytes_;
  const uint64_t capacity_granules_;
  const uint64_t pool_bytes_;
  DriverLedger ledger_;
  std::vector<ExpandablePool> pools_;
  // By stream: the pool of small blocks; that of large ones is the next.
  absl::flat_hash_map<uint32_t, uint32_t> pools_of_stream_;
  // Requested bytes by address.
  absl::flat_hash_map<uint64_t, uint64_t> blocks_;
  uint64_t live_bytes_ = 0;
  uint64_t mapped_granules_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_EXPANDABLE_POLICY_H_

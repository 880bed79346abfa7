// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Size-keyed hash bins: freed blocks wait, unjoined, in the bin of their exact
// size for a request of that size.
//
// A request is rounded up to 512 bytes and takes
//   1. the block of exactly that size that was freed last;
//   2. else, the next bytes of the arena's untouched end;
//   3. once the end has been too short, for good: the best fit among the free
//      ranges of the arena (what remained of the end is one), cut from its
//      bottom, the rest stays a free range;
//   4. else, all blocks of all bins are taken out of them and joined with their
//      free neighbours to such ranges, and 3 is tried again.
// A request for more than all that is free is refused first, and changes
// nothing. Every block freed is joined at most once, so a request costs
// O(log n) over time, in a device that is too small, too.

#ifndef FIRN_BENCH_POLICIES_SIZE_HASH_POLICY_H_
#define FIRN_BENCH_POLICIES_SIZE_HASH_POLICY_H_

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/arena_extent.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"
#include "firn/core/placement/best_fit_ranges.h"
#include "firn/core/placement/size_hash_table.h"

namespace firn::bench {

class SizeHashPolicy : public Policy {
 public:
  explicit SizeHashPolicy(const PolicyOptions& options);

  absl::string_view name() const override { return "size_hash"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override { return extent_.usage(); }
  PolicyReport Report() override { return extent_.Report(live_bytes_); }

 private:
  std::optional<uint64_t> Place(uint64_t block_bytes);
  // Empties the bins into the free ranges.
  void Coalesce();

  const uint64_t capacity_bytes_;
  ArenaExtent extent_;
  SizeHashTable bins_;
  // Where the untouched end starts; the capacity once it was too short.
  uint64_t end_ = 0;
  BestFitRanges ranges_;
  // Requested bytes by address.
  absl::flat_hash_map<uint64_t, uint64_t> blocks_;
  uint64_t live_bytes_ = 0;
  uint64_t live_block_bytes_ = 0;  // as rounded up
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_SIZE_HASH_POLICY_H_

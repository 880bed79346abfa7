// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One arena that only grows, divided by one of the pool's placements: free_list
// and best_fit as they are; slab and buddy have headers of their own.

#ifndef FIRN_BENCH_POLICIES_ARENA_POLICY_H_
#define FIRN_BENCH_POLICIES_ARENA_POLICY_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/arena_extent.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"
#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/placement.h"
#include "firn/core/placement_kind.h"

namespace firn::bench {

class ArenaPolicy : public Policy {
 public:
  absl::string_view name() const override { return placement_->name(); }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override { return extent_.usage(); }
  PolicyReport Report() override { return extent_.Report(live_bytes_); }

 protected:
  // Gives the placement nothing yet.
  ArenaPolicy(PlacementKind kind, const PolicyOptions& options);

  Placement& placement() const { return *placement_; }
  // Gives the placement more of the arena, that it may have room for a block;
  // false if that cannot help.
  virtual bool GrowFor(uint64_t /*bytes*/) { return false; }
  // The end of the arena that a new block uses.
  virtual uint64_t EndOf(FreeRange extent, uint64_t /*bytes*/) const {
    return extent.end();
  }

 private:
  struct Block {
    uint64_t bytes = 0;  // requested
    uint64_t extent_bytes = 0;
  };

  ArenaExtent extent_;
  const std::unique_ptr<Placement> placement_;
  absl::flat_hash_map<uint64_t, Block> blocks_;  // by address
  uint64_t live_bytes_ = 0;
};

// The placement has all of the capacity from the start; the arena's untouched
// end is part of its free ranges.
template <PlacementKind kKind>
class WholeArenaPolicy : public ArenaPolicy {
 public:
  explicit WholeArenaPolicy(const PolicyOptions& options)
      : ArenaPolicy(kKind, options) {
    placement().Give({0, options.capacity_bytes}, options.capacity_bytes);
  }
};

// The classical free list: the lowest range that is long enough.
using FreeListPolicy = WholeArenaPolicy<PlacementKind::kFreeList>;
// The shortest range that is long enough, of equals the lowest.
using BestFitPolicy = WholeArenaPolicy<PlacementKind::kBestFit>;

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_ARENA_POLICY_H_

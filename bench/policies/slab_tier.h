// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The tier of small blocks: slabs, each a run of granules taken from the shared
// budget and, once empty, kept until some slab of its length or another tier
// needs it.

#ifndef FIRN_BENCH_POLICIES_SLAB_TIER_H_
#define FIRN_BENCH_POLICIES_SLAB_TIER_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "bench/policies/granule_budget.h"
#include "bench/policies/slab_heap.h"
#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/slab_classes.h"

namespace firn::bench {

// Thread safety: none.
class SlabTier {
 public:
  // `budget` must outlive it.
  explicit SlabTier(GranuleBudget* budget);

  // The granules that a block of the class needs from the budget: 0 if a slab
  // has room or an empty one of the right length is kept.
  uint64_t MissingGranules(SlabClass size_class) const;
  // The address of a new block. REQUIRES: the budget has the granules missing.
  uint64_t Allocate(SlabClass size_class, uint64_t bytes);
  // The requested bytes of the block that is gone now; 0 if there was none.
  uint64_t Free(uint64_t address);

  // Granules of slabs with a live block, and of slabs kept.
  uint64_t used_granules() const { return used_granules_; }
  uint64_t kept_granules() const { return kept_granules_; }
  // Gives an empty slab back to the budget, a longest one. REQUIRES: one is
  // kept.
  void GiveKeptBack();

 private:
  GranuleBudget* const budget_;
  SlabHeap slabs_;  // the tags are requested bytes
  FreeRangeTree unused_addresses_;
  // Addresses of empty slabs by their length in granules, last kept first out.
  absl::btree_map<uint64_t, std::vector<uint64_t>> kept_;
  uint64_t used_granules_ = 0;
  uint64_t kept_granules_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_SLAB_TIER_H_

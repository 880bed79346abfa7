// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The classical slab allocator of kernels: slabs cut into objects of one size
// class with a bitmap each, the lowest that has room is filled first. Empty
// slabs go back to the arena, where any class may have them, but never to the
// driver (the policy that gives empty pages back is `paged`).

#ifndef FIRN_BENCH_POLICIES_SLAB_POLICY_H_
#define FIRN_BENCH_POLICIES_SLAB_POLICY_H_

#include <cstdint>

#include "bench/policies/arena_policy.h"
#include "bench/policies/policy_options.h"
#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement_kind.h"

namespace firn::bench {

// A slab is used as a whole, with its first object.
class SlabPolicy : public WholeArenaPolicy<PlacementKind::kSlab> {
 public:
  explicit SlabPolicy(const PolicyOptions& options);

 private:
  uint64_t EndOf(FreeRange extent, uint64_t bytes) const override;

  const uint64_t granule_bytes_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_SLAB_POLICY_H_

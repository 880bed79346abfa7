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

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/arena_extent.h"
#include "bench/policies/free_range_tree.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"
#include "bench/policies/slab_heap.h"

namespace firn::bench {

// Objects of up to half a granule live in slabs of SlabGranules() granules
// each; larger requests get whole granules. Both are runs of the arena's
// granules, placed by address-ordered first fit and joined at once when freed.
class SlabPolicy : public Policy {
 public:
  explicit SlabPolicy(const PolicyOptions& options);

  absl::string_view name() const override { return "slab"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override { return extent_.usage(); }
  PolicyReport Report() override { return extent_.Report(live_bytes_); }

 private:
  // The address of a run of granules; ResourceExhausted if none is free.
  absl::StatusOr<uint64_t> TakeRun(uint64_t granules);
  void GiveRun(SlabRun run);
  absl::StatusOr<uint64_t> AllocateRun(uint64_t bytes);

  const uint64_t granule_bytes_;
  ArenaExtent extent_;
  FreeRangeTree free_runs_;
  SlabHeap slabs_;  // the tags are requested bytes
  // Requested bytes of the blocks with granules of their own, by address.
  absl::flat_hash_map<uint64_t, uint64_t> runs_;
  uint64_t live_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_SLAB_POLICY_H_

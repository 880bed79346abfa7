// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// As `paged`, and blocks may move to another page and get a new address, as in
// a server that can rewrite its block tables: free of the rule that an address,
// and so an offset within a page, never changes. What the policy hands out are
// identities; it knows where each block is.
//
// A page is emptied by moving its blocks to the fullest other pages of its
// class, whenever these have enough free slots: after that a class of n blocks,
// k to a page, has ceil(n / k) pages. Of the pages that can be emptied, over
// all classes, the one whose live slots come to the fewest bytes comes first.
// The compaction mode says when:
//   off         never: the policy is `paged`
//   on_demand   when an allocation lacks pages, and then only as many as it
//               lacks, and only if that many can be emptied; they become the
//               block's own without going through the driver's hands
//   background  also at the rhythm of the pool's own background passes
//               (BackgroundTrigger), when what emptying pages would give back
//               is more than these tolerate, until it is not. What rounding to
//               slots and pages wastes no move can give back: it does not count
// The copies of one page are one launch of a kernel that copies a list of
// blocks, charged for its bytes; what the tables cost to rewrite is not.

#ifndef FIRN_BENCH_POLICIES_PAGED_MIGRATING_POLICY_H_
#define FIRN_BENCH_POLICIES_PAGED_MIGRATING_POLICY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/background_trigger.h"
#include "bench/policies/page_store.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"
#include "bench/policies/slab_heap.h"
#include "firn/vmm/cost_model.h"

namespace firn::bench {

class PagedMigratingPolicy : public Policy {
 public:
  explicit PagedMigratingPolicy(const PolicyOptions& options);

  absl::string_view name() const override { return "paged_migrating"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  absl::Status Tick(int64_t time_us) override;
  absl::StatusOr<bool> TickIdle(int64_t time_us) override;
  PolicyUsage usage() const override { return pages_.usage(); }
  PolicyReport Report() override;

 private:
  struct Block {
    uint64_t bytes = 0;    // requested; 0 where no block is live
    uint64_t address = 0;  // where it is now, unless it has pages of its own
  };

  // Empties pages until `pages` are free; false if that cannot be.
  bool MakeRoom(uint64_t pages);
  // Empties pages until the waste is tolerated.
  void RunPass();
  // Empties one page.
  void EmptyOnePage();
  bool IsWasteful() const;
  // What has been spent in the driver and on copies.
  double SpentUs() const {
    return pages_.Report(0).driver_us_modelled + copies_us_;
  }

  const CompactionMode compaction_;
  PageStore pages_;  // the tags are 1 + the number of the block
  CostModel copy_cost_;
  BackgroundTrigger trigger_;
  // By number, which an identity is made of.
  std::vector<Block> blocks_;
  std::vector<uint64_t> unused_blocks_;
  uint64_t live_bytes_ = 0;
  uint64_t bytes_copied_ = 0;
  double copies_us_ = 0;
  uint64_t pages_emptied_ = 0;
  std::vector<double> pause_us_;
  std::vector<SlabHeap::MovedBlock> moved_;  // kept for its memory
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_PAGED_MIGRATING_POLICY_H_

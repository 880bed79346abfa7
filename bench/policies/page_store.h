// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pages of one granule, each dedicated to one block size: created when a block
// needs one, unmapped and given back to the driver as soon as they are empty.

#ifndef FIRN_BENCH_POLICIES_PAGE_STORE_H_
#define FIRN_BENCH_POLICIES_PAGE_STORE_H_

#include <cstdint>
#include <vector>

#include "bench/policies/driver_ledger.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"
#include "bench/policies/slab_heap.h"
#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/slab_classes.h"

namespace firn::bench {

// Blocks of more than half a page get pages of their own, any pages, as
// addresses are made by mapping. Thread safety: none.
class PageStore {
 public:
  // `moves` says how blocks are placed (SlabHeap); the owner calls for moves.
  PageStore(const PolicyOptions& options, CompactionMode moves);

  uint64_t page_bytes() const { return page_bytes_; }
  // Pages that a block can have: of capacity not held, and emptied ones.
  uint64_t free_pages() const {
    return capacity_pages_ - held_pages_ + emptied_.size();
  }
  bool NeedsOwnPages(uint64_t bytes) const { return bytes > page_bytes_ / 2; }

  // Pages for one block. REQUIRES: so many are free.
  void TakeOwnPages(uint64_t bytes);
  void GiveOwnPages(uint64_t bytes);

  // Whether a block of the class needs no new page.
  bool HasFreeSlot(SlabClass size_class) const {
    return slabs_.HasFreeSlot(size_class);
  }
  // The address of a new block. REQUIRES: HasFreeSlot() or a free page.
  uint64_t Place(SlabClass size_class, uint64_t tag);
  // The tag of the block that is gone now; 0 if there was none.
  uint64_t Free(uint64_t address);

  // How many pages EmptyCheapestPage() could empty, one after another.
  uint64_t RecoverablePages() const;
  // Of all pages whose blocks fit into other pages of their class, empties the
  // one with the fewest live slots by size, and keeps it for the next block
  // that needs a page: mapped as it is for small blocks, mapped elsewhere for a
  // block of its own. Appends where its blocks are now. REQUIRES: compaction is
  // not off, and RecoverablePages() > 0.
  void EmptyCheapestPage(std::vector<SlabHeap::MovedBlock>* moved);
  // Gives the emptied pages that no block had use for back to the driver.
  void ReleaseEmptied();

  // used = held, once ReleaseEmptied() was called: there are no empty pages.
  PolicyUsage usage() const;
  PolicyReport Report(uint64_t live_bytes) const {
    return ledger_.Report(live_bytes, page_bytes_);
  }

 private:
  void Release(SlabRun page);
  // Makes the address of a page free for another.
  void ReturnAddress(uint64_t address);

  const uint64_t page_bytes_;
  const uint64_t capacity_pages_;
  DriverLedger ledger_;
  // Page numbers are used again, lowest first.
  FreeRangeTree unused_addresses_;
  SlabHeap slabs_;
  std::vector<SlabRun> emptied_;
  uint64_t held_pages_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_PAGE_STORE_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/page_store.h"

#include <algorithm>

#include "firn/core/placement/size_rounding.h"

namespace firn::bench {

PageStore::PageStore(const PolicyOptions& options, CompactionMode moves)
    : page_bytes_(options.granule_bytes),
      capacity_pages_(options.capacity_bytes / options.granule_bytes),
      ledger_(options.cost),
      slabs_(options.granule_bytes, moves) {
  unused_addresses_.Insert({0, capacity_pages_ * page_bytes_});
}

void PageStore::TakeOwnPages(uint64_t bytes) {
  const uint64_t pages = DivideUp(bytes, page_bytes_);
  const uint64_t emptied = std::min<uint64_t>(pages, emptied_.size());
  for (uint64_t i = 0; i < emptied; ++i) {
    ReturnAddress(emptied_.back().address);
    emptied_.pop_back();
  }
  ledger_.ChargeUnmap(emptied);
  ledger_.ChargeMapRun(emptied);
  held_pages_ += pages - emptied;
  ledger_.ChargeNewRun(pages - emptied);
}

void PageStore::GiveOwnPages(uint64_t bytes) {
  const uint64_t pages = DivideUp(bytes, page_bytes_);
  held_pages_ -= pages;
  ledger_.ChargeRelease(pages);
}

uint64_t PageStore::Place(SlabClass size_class, uint64_t tag) {
  if (!HasFreeSlot(size_class) && !emptied_.empty()) {
    slabs_.AddSlab(size_class, emptied_.back());
    emptied_.pop_back();
  } else if (!HasFreeSlot(size_class)) {
    const FreeRangeTree::Node lowest = unused_addresses_.FirstFit(page_bytes_);
    const uint64_t address = unused_addresses_.range(lowest).start;
    unused_addresses_.Take(lowest, address, page_bytes_);
    slabs_.AddSlab(size_class, {address, 1});
    ++held_pages_;
    ledger_.ChargeNewRun(1);
  }
  return slabs_.Place(size_class, tag);
}

uint64_t PageStore::Free(uint64_t address) {
  const SlabHeap::FreedBlock freed = slabs_.Free(address);
  if (freed.emptied.granules != 0) Release(freed.emptied);
  return freed.tag;
}

void PageStore::ReturnAddress(uint64_t address) {
  unused_addresses_.Give({address, page_bytes_},
                         unused_addresses_.Around(address));
}

void PageStore::Release(SlabRun page) {
  ReturnAddress(page.address);
  --held_pages_;
  ledger_.ChargeRelease(1);
}

void PageStore::ReleaseEmptied() {
  for (const SlabRun page : emptied_) Release(page);
  emptied_.clear();
}

uint64_t PageStore::RecoverablePages() const {
  uint64_t pages = 0;
  for (uint32_t index = 0; index < slabs_.classes(); ++index) {
    const SlabHeap::Occupancy occupancy = slabs_.GetOccupancy(index);
    if (occupancy.CanEmptyASlab()) {
      pages += occupancy.free_slots / occupancy.slots_per_slab;
    }
  }
  return pages;
}

void PageStore::EmptyCheapestPage(std::vector<SlabHeap::MovedBlock>* moved) {
  uint32_t cheapest = 0;
  uint64_t least_bytes = ~uint64_t{0};
  for (uint32_t index = 0; index < slabs_.classes(); ++index) {
    const SlabHeap::Occupancy occupancy = slabs_.GetOccupancy(index);
    const uint64_t bytes = occupancy.least_live_slots * occupancy.block_bytes;
    if (occupancy.CanEmptyASlab() && bytes < least_bytes) {
      cheapest = index;
      least_bytes = bytes;
    }
  }
  emptied_.push_back(slabs_.EmptySparsestSlab(cheapest, moved));
}

PolicyUsage PageStore::usage() const {
  const uint64_t held_bytes = held_pages_ * page_bytes_;
  return {held_bytes, held_bytes, held_pages_};
}

}  // namespace firn::bench

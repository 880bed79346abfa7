// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/slab_tier.h"

#include <iterator>

#include "firn/core/placement/size_rounding.h"
#include "firn/core/placement/slab_shape.h"

namespace firn::bench {
namespace {

// No replay needs as many addresses.
constexpr uint64_t kAddressesEnd = kLargestRequestBytes;

}  // namespace

SlabTier::SlabTier(GranuleBudget* budget)
    : budget_(budget), slabs_(budget->granule_bytes(), CompactionMode::kOff) {
  unused_addresses_.Insert({0, kAddressesEnd});
}

uint64_t SlabTier::MissingGranules(SlabClass size_class) const {
  if (slabs_.HasFreeSlot(size_class)) return 0;
  const uint64_t granules =
      SlabGranules(size_class.block_bytes, budget_->granule_bytes());
  return kept_.contains(granules) ? 0 : granules;
}

uint64_t SlabTier::Allocate(SlabClass size_class, uint64_t bytes) {
  if (!slabs_.HasFreeSlot(size_class)) {
    const uint64_t granules =
        SlabGranules(size_class.block_bytes, budget_->granule_bytes());
    SlabRun run{0, granules};
    if (const auto kept = kept_.find(granules); kept != kept_.end()) {
      run.address = kept->second.back();
      kept->second.pop_back();
      if (kept->second.empty()) kept_.erase(kept);
      kept_granules_ -= granules;
    } else {
      const uint64_t run_bytes = granules * budget_->granule_bytes();
      const FreeRangeTree::Node lowest = unused_addresses_.FirstFit(run_bytes);
      run.address = unused_addresses_.range(lowest).start;
      unused_addresses_.Take(lowest, run.address, run_bytes);
      budget_->Take(granules);
    }
    slabs_.AddSlab(size_class, run);
    used_granules_ += granules;
  }
  return slabs_.Place(size_class, bytes);
}

uint64_t SlabTier::Free(uint64_t address) {
  const SlabHeap::FreedBlock freed = slabs_.Free(address);
  if (freed.emptied.granules != 0) {
    kept_[freed.emptied.granules].push_back(freed.emptied.address);
    kept_granules_ += freed.emptied.granules;
    used_granules_ -= freed.emptied.granules;
  }
  return freed.tag;
}

void SlabTier::GiveKeptBack() {
  const auto longest = std::prev(kept_.end());
  const uint64_t granules = longest->first;
  const uint64_t address = longest->second.back();
  longest->second.pop_back();
  if (longest->second.empty()) kept_.erase(longest);
  unused_addresses_.Give({address, granules * budget_->granule_bytes()},
                         unused_addresses_.Around(address));
  kept_granules_ -= granules;
  budget_->Give(granules);
}

}  // namespace firn::bench

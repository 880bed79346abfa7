// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Size-keyed hash bins in front of free ranges: freed blocks wait, unjoined, in
// the bin of their exact size for a request of that size.

#ifndef FIRN_CORE_PLACEMENT_SIZE_HASH_PLACEMENT_H_
#define FIRN_CORE_PLACEMENT_SIZE_HASH_PLACEMENT_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "firn/core/placement/best_fit_ranges.h"
#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/placement.h"
#include "firn/core/placement/size_hash_table.h"

namespace firn {

// A request is rounded up to whole quanta and takes the block of exactly that
// size that was freed last; else the best fit among the free ranges; else all
// blocks of all bins are joined with their neighbours to such ranges, and that
// is tried again. A request for more than all that is free is refused first.
//
// What lies where is not known of binned blocks, so that Withdraw joins them
// too. Either way a freed block is joined at most once: over time a call costs
// O(log n).
class SizeHashPlacement : public Placement {
 public:
  explicit SizeHashPlacement(uint64_t granule_bytes)
      : granule_bytes_(granule_bytes) {}

  absl::string_view name() const override;
  Growth GrowthFor(uint64_t bytes, uint64_t alignment_bytes) const override;
  void Give(FreeRange granules, uint64_t wanted_bytes) override;
  std::optional<FreeRange> Take(uint64_t bytes,
                                uint64_t alignment_bytes) override;
  void Free(FreeRange extent) override;
  void Withdraw(FreeRange granules) override;

 private:
  std::optional<uint64_t> Place(uint64_t block_bytes, uint64_t alignment_bytes);
  // Empties the bins into the free ranges.
  void Coalesce();

  const uint64_t granule_bytes_;
  FreeRangeTree own_;  // all that was given and not withdrawn
  SizeHashTable bins_;
  BestFitRanges ranges_;
  uint64_t free_bytes_ = 0;  // of the bins and the ranges
  FreeRange given_last_;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_SIZE_HASH_PLACEMENT_H_

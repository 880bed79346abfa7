// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The free list: blocks cut from free ranges, which join again as soon as they
// touch.

#ifndef FIRN_CORE_PLACEMENT_RANGE_PLACEMENT_H_
#define FIRN_CORE_PLACEMENT_RANGE_PLACEMENT_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "firn/core/placement/best_fit_ranges.h"
#include "firn/core/placement/first_fit_ranges.h"
#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/placement.h"

namespace firn {

// `Ranges` decides which of the free ranges is cut. Extents are requests
// rounded up to whole quanta.
template <typename Ranges>
class RangePlacement : public Placement {
 public:
  explicit RangePlacement(uint64_t granule_bytes)
      : granule_bytes_(granule_bytes) {}

  absl::string_view name() const override;
  Growth GrowthFor(uint64_t bytes, uint64_t alignment_bytes) const override;
  void Give(FreeRange granules, uint64_t wanted_bytes) override;
  std::optional<FreeRange> Take(uint64_t bytes,
                                uint64_t alignment_bytes) override;
  void Free(FreeRange extent) override;
  void Withdraw(FreeRange granules) override;

 private:
  const uint64_t granule_bytes_;
  FreeRangeTree own_;  // all that was given and not withdrawn
  Ranges free_;
  FreeRange given_last_;
};

// The lowest range that is long enough.
using FreeListPlacement = RangePlacement<FirstFitRanges>;
// The shortest range that is long enough, of equals the lowest.
using BestFitPlacement = RangePlacement<BestFitRanges>;

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_RANGE_PLACEMENT_H_

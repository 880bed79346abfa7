// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/full_passes.h"

#include <algorithm>

namespace firn::bench {

bool FullPasses::IsDue(uint64_t events_done) const {
  if (figures_.passes == wanted_passes_) return false;
  const uint64_t next = figures_.passes + 1;
  return events_done >= (next * events_ + wanted_passes_ / 2) / wanted_passes_;
}

void FullPasses::Done(const FullPassOutcome& outcome) {
  ++figures_.passes;
  if (outcome.lower_bound_granules < kLeastBoundGranules) return;
  ++figures_.counted_passes;
  const double ratio = static_cast<double>(outcome.used_granules) /
                       static_cast<double>(outcome.lower_bound_granules);
  figures_.worst_used_over_bound =
      std::max(figures_.worst_used_over_bound.value_or(0), ratio);
  sum_used_over_bound_ += ratio;
}

FullPassFigures FullPasses::figures() const {
  FullPassFigures figures = figures_;
  if (figures.counted_passes > 0) {
    figures.mean_used_over_bound =
        sum_used_over_bound_ / static_cast<double>(figures.counted_passes);
  }
  return figures;
}

}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/spill_planner.h"

#include <algorithm>
#include <cstddef>

namespace firn {

SpillPlan PlanSpill(std::vector<SpillCandidate> candidates,
                    const SpillNeed& need) {
  SpillPlan plan;
  if (candidates.empty()) {
    plan.why = "no granule holds nothing but idle blocks that may be spilled";
    return plan;
  }
  if (need.host_granules < need.least_granules) {
    plan.why = "host_spill_limit_bytes leaves too little";
    return plan;
  }
  if (candidates.size() < need.least_granules) {
    plan.why = "less may be spilled than it takes";
    return plan;
  }
  const size_t count = std::min<size_t>(
      {candidates.size(), need.missing_granules, need.host_granules});
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(candidates.begin(), end, candidates.end(),
                    [](const SpillCandidate& a, const SpillCandidate& b) {
                      return a.live_quanta != b.live_quanta
                                 ? a.live_quanta < b.live_quanta
                                 : a.granule < b.granule;
                    });
  for (auto at = candidates.begin(); at != end; ++at) {
    plan.granules.push_back(at->granule);
  }
  return plan;
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// WHICH granules are spilled for an allocation that would fail.

#ifndef FIRN_CORE_SPILL_PLANNER_H_
#define FIRN_CORE_SPILL_PLANNER_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "firn/vmm/units.h"

namespace firn {

// A granule of which all that is live may be spilled.
struct SpillCandidate {
  GranuleId granule;
  uint64_t live_quanta = 0;
};

struct SpillNeed {
  // As many will do in any case; fewer than the latter, at least 1, never.
  uint32_t missing_granules = 0;
  uint32_t least_granules = 1;
  // Of host memory, that may still be taken.
  uint32_t host_granules = 0;
};

struct SpillPlan {
  std::vector<GranuleId> granules;
  absl::string_view why;  // there are none; a literal
};

// As many granules as are missing, those with the fewest live bytes first, as
// each costs a copy over the bus and back; none where that cannot be enough.
SpillPlan PlanSpill(std::vector<SpillCandidate> candidates,
                    const SpillNeed& need);

}  // namespace firn

#endif  // FIRN_CORE_SPILL_PLANNER_H_

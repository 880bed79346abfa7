// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/planner.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "firn/compaction/planner_hosts.h"
#include "firn/compaction/planner_moves.h"

namespace firn {
namespace {

class Planner {
 public:
  Planner(const Snapshot& snapshot, const PlanLimits& limits)
      : snapshot_(snapshot),
        limits_(limits),
        hosts_(snapshot, limits),
        moves_(snapshot, limits, &hosts_) {}

  Plan Run() {
    plan_.pinned_granules = static_cast<uint32_t>(hosts_.pinned_count());
    uint32_t failures_in_row = 0;
    // The lowest rank has no host below it, and what is pinned stays.
    const size_t lowest = std::max<size_t>(1, hosts_.pinned_count());
    for (size_t rank = hosts_.count(); rank-- > lowest;) {
      if (plan_.emptied_granules >= limits_.wanted_granules) break;
      if (failures_in_row >= limits_.max_failures_in_row) break;
      // What took something in is fuller than it was when the order was made.
      if (hosts_.took_in(rank)) continue;
      const SnapshotGranule& source = hosts_.record(rank);
      if (plan_.copied_quanta + source.live_quanta > limits_.max_quanta ||
          plan_.moves.size() + source.vg_count > limits_.max_moves) {
        plan_.limited = true;
        break;
      }
      to_move_.resize(source.vg_count);
      std::iota(to_move_.begin(), to_move_.end(), source.first_vg);
      const double cost_us = CostOf(source);
      if (cost_us >= limits_.costs.freed_granule_us) {
        ++plan_.unprofitable_sources;
        continue;
      }
      if (!moves_.MoveOut(rank, to_move_, rank, &plan_.moves)) {
        ++failures_in_row;
        ++plan_.rejected_sources;
        continue;
      }
      failures_in_row = 0;
      hosts_.Close(rank);
      ++plan_.emptied_granules;
      plan_.copied_quanta += source.live_quanta;
      plan_.cost_us += cost_us;
    }
    return std::move(plan_);
  }

 private:
  // Of moving all of `to_move_`, which is all of `source`.
  double CostOf(const SnapshotGranule& source) {
    const PlanCosts& costs = limits_.costs;
    return costs.moved_vg_us * source.vg_count +
           costs.moved_run_us * moves_.CountRuns(to_move_) +
           costs.copied_granule_us * source.live_quanta /
               snapshot_.quanta_per_granule;
  }

  const Snapshot& snapshot_;
  const PlanLimits limits_;
  PlannerHosts hosts_;
  PlannerMoves moves_;
  std::vector<uint32_t> to_move_;  // indices into Snapshot::vgs
  Plan plan_;
};

}  // namespace

Plan MakePlan(const Snapshot& snapshot, const PlanLimits& limits) {
  if (snapshot.granules.empty()) return Plan();
  return Planner(snapshot, limits).Run();
}

}  // namespace firn

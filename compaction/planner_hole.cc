// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// MakeHolePlan: where a hole costs least, and what moves for it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/compaction/planner.h"
#include "firn/compaction/planner_hosts.h"
#include "firn/compaction/planner_moves.h"

namespace firn {
namespace {

// Granules in which a hole is attempted, cheapest first.
constexpr size_t kHoleTries = 128;

struct HoleSite {
  size_t rank = 0;
  OffsetInterval interval;
  uint32_t live_quanta = 0;  // of the virtual granules in the way
};

class HolePlanner {
 public:
  HolePlanner(const Snapshot& snapshot, const PlanLimits& limits)
      : snapshot_(snapshot),
        limits_(limits),
        hosts_(snapshot, limits),
        moves_(snapshot, limits, &hosts_) {}

  Plan Run(uint32_t quanta, uint32_t alignment_quanta) {
    Plan plan;
    plan.pinned_granules = static_cast<uint32_t>(hosts_.pinned_count());
    std::vector<HoleSite> sites;
    for (size_t rank = 0; rank < hosts_.count(); ++rank) {
      HoleSite site;
      site.rank = rank;
      if (FindCheapestSite(quanta, alignment_quanta, &site)) {
        sites.push_back(site);
      }
    }
    const size_t tries = std::min(sites.size(), kHoleTries);
    std::partial_sort(
        sites.begin(), sites.begin() + static_cast<std::ptrdiff_t>(tries),
        sites.end(), [](const HoleSite& a, const HoleSite& b) {
          return a.live_quanta != b.live_quanta ? a.live_quanta < b.live_quanta
                                                : a.rank < b.rank;
        });
    for (size_t i = 0; i < tries; ++i) {
      const HoleSite& site = sites[i];
      if (site.live_quanta == 0) continue;  // a hole already
      if (site.live_quanta > limits_.max_quanta) break;
      if (!Open(site, &plan.moves)) continue;
      plan.copied_quanta = site.live_quanta;
      break;
    }
    return plan;
  }

 private:
  bool Open(const HoleSite& site, std::vector<PlannedMove>* moves) {
    to_move_.clear();
    const SnapshotGranule& source = hosts_.record(site.rank);
    for (uint32_t vg = source.first_vg; vg < source.first_vg + source.vg_count;
         ++vg) {
      if (TouchesInterval(vg, site.interval)) to_move_.push_back(vg);
    }
    if (to_move_.size() > limits_.max_moves) return false;
    // Any other granule may be the host.
    hosts_.Close(site.rank);
    const bool moved =
        moves_.MoveOut(site.rank, to_move_, hosts_.count(), moves);
    hosts_.Reopen(site.rank);
    return moved;
  }

  bool TouchesInterval(uint32_t vg, OffsetInterval interval) const {
    for (const OffsetInterval& extent :
         snapshot_.ExtentsOf(snapshot_.vgs[vg])) {
      if (extent.lo < interval.hi && interval.lo < extent.hi) return true;
    }
    return false;
  }

  // The interval of the granule that the fewest live quanta are in the way of.
  // A best one begins behind an extent or ends before one, so only those are
  // looked at. False if something is in the way everywhere that is
  // pinned, or more than is gained.
  bool FindCheapestSite(uint32_t quanta, uint32_t alignment_quanta,
                        HoleSite* site) {
    const SnapshotGranule& granule = hosts_.record(site->rank);
    starts_.assign(1, 0);
    for (const SnapshotVg& vg : snapshot_.VgsOf(granule)) {
      for (const OffsetInterval& extent : snapshot_.ExtentsOf(vg)) {
        starts_.push_back((extent.hi + alignment_quanta - 1) /
                          alignment_quanta * alignment_quanta);
        if (extent.lo >= quanta) {
          starts_.push_back((extent.lo - quanta) / alignment_quanta *
                            alignment_quanta);
        }
      }
    }
    bool found = false;
    for (const uint32_t start : starts_) {
      if (start + quanta > snapshot_.quanta_per_granule) continue;
      OffsetInterval interval;
      interval.lo = start;
      interval.hi = start + quanta;
      uint32_t live_quanta = 0;
      for (uint32_t vg = granule.first_vg;
           vg < granule.first_vg + granule.vg_count; ++vg) {
        if (!TouchesInterval(vg, interval)) continue;
        live_quanta += snapshot_.vgs[vg].is_pinned
                           ? snapshot_.quanta_per_granule
                           : snapshot_.vgs[vg].live_quanta;
      }
      if (live_quanta >= quanta ||
          (found && live_quanta >= site->live_quanta)) {
        continue;
      }
      found = true;
      site->interval = interval;
      site->live_quanta = live_quanta;
    }
    return found;
  }

  const Snapshot& snapshot_;
  const PlanLimits limits_;
  PlannerHosts hosts_;
  PlannerMoves moves_;
  std::vector<uint32_t> to_move_;  // indices into Snapshot::vgs
  std::vector<uint32_t> starts_;
};

}  // namespace

Plan MakeHolePlan(const Snapshot& snapshot, uint32_t quanta,
                  uint32_t alignment_quanta, const PlanLimits& limits) {
  if (snapshot.granules.empty()) return Plan();
  return HolePlanner(snapshot, limits).Run(quanta, alignment_quanta);
}

}  // namespace firn

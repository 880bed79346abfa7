// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// WHICH virtual granules to move where: a pure function of a snapshot and
// limits. The same input always gives the same plan.

#ifndef FIRN_COMPACTION_PLANNER_H_
#define FIRN_COMPACTION_PLANNER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "firn/compaction/snapshot.h"
#include "firn/vmm/units.h"

namespace firn {

// What moving costs and what it gains, in microseconds of the driver's time:
// granules are emptied only where that gains more than it costs. Waiting for
// the device apart, a remap takes twenty times as long as the copy of a whole
// granule.
struct PlanCosts {
  // What one more empty granule is worth. The default: whatever can be emptied
  // is.
  double freed_granule_us = std::numeric_limits<double>::infinity();
  // Of each virtual granule moved (unmap, map, and its part of set-access), of
  // each run of them that one call gives access to, and of the copy of as many
  // bytes as fill a granule: the published figures for an A100.
  double moved_vg_us = 43.5;
  double moved_run_us = 20;
  double copied_granule_us = 3;
};

struct PlanLimits {
  // Most quanta copied, most virtual granules moved.
  uint64_t max_quanta = std::numeric_limits<uint64_t>::max();
  uint64_t max_moves = std::numeric_limits<uint64_t>::max();
  // Stop once so many granules become empty.
  uint64_t wanted_granules = std::numeric_limits<uint64_t>::max();
  // Most mappings a host may end up with: each is an entry of the device's
  // translation caches.
  uint32_t max_mappings_per_granule = 48;
  // Failed sources in a row after which the search ends.
  uint32_t max_failures_in_row = std::numeric_limits<uint32_t>::max();
  // Neighbours in address space that live on one source go to one host if that
  // has at most so many quanta less than the one that would be chosen. 0: each
  // goes its own way, which frees most.
  uint32_t neighbour_tolerance_quanta = 0;
  PlanCosts costs;
};

// One virtual granule (an index into Snapshot::vgs) leaves `from` for `to`
// (indices into Snapshot::granules).
struct PlannedMove {
  uint32_t vg = 0;
  uint32_t from = 0;
  uint32_t to = 0;
};

struct Plan {
  // Grouped by source, in the order in which sources become empty. No granule
  // is both a source and a host.
  std::vector<PlannedMove> moves;
  // Granules left without a live byte.
  uint32_t emptied_granules = 0;
  uint64_t copied_quanta = 0;
  // By PlanLimits::costs.
  double cost_us = 0;
  // Granules that would have cost more than they are worth.
  uint32_t unprofitable_sources = 0;
  // Sources of which some virtual granule fitted nowhere.
  uint32_t rejected_sources = 0;
  // Granules with something pinned: never sources.
  uint32_t pinned_granules = 0;
  // A limit other than `wanted_granules` ended the plan.
  bool limited = false;
};

// Sparsest granule first; each of its virtual granules, largest first, goes to
// the fullest granule in which all of its live extents are free; a source
// whose virtual granules do not all fit is left alone. Hosts are never emptier
// than the source; but for granules with something pinned, which stay in any
// case: they are no sources, and the first choice as hosts of all the others.
//
// Neighbours in address space that live on one source may be kept together,
// where that makes no granule a host that is none yet: on one that is about as
// full and can take all of a run in, else beside a neighbour that has moved.
// What a granule costs to empty is known beforehand; one that costs more than
// PlanCosts says it is worth is passed over.
//
// With windows that are aligned equal stripes this frees m granules with the
// fewest bytes copied, for every m; in general it is a greedy colouring.
Plan MakePlan(const Snapshot& snapshot, const PlanLimits& limits);

// Opens a hole: moves the virtual granules that are in the way of `quanta`
// clear quanta in one granule, starting at a multiple of `alignment_quanta`, to
// other granules. For a block that fits nowhere although as much is free: where
// no whole granule can be emptied, part of one often can. The cheapest
// candidates are tried; the plan has no moves if none works. Holes that exist
// already are passed over: the caller could not use them. What is pinned is
// never moved; what lies beside it may be.
Plan MakeHolePlan(const Snapshot& snapshot, uint32_t quanta,
                  uint32_t alignment_quanta, const PlanLimits& limits);

}  // namespace firn

#endif  // FIRN_COMPACTION_PLANNER_H_

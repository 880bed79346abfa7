// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds hosts for virtual granules of one granule, for all of them or for none.

#ifndef FIRN_COMPACTION_PLANNER_MOVES_H_
#define FIRN_COMPACTION_PLANNER_MOVES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/planner_hosts.h"
#include "firn/compaction/snapshot.h"

namespace firn {

// Thread safety: none.
class PlannerMoves {
 public:
  // Owns none of its arguments, which must outlive it.
  PlannerMoves(const Snapshot& snapshot, const PlanLimits& limits,
               PlannerHosts* hosts)
      : snapshot_(snapshot),
        keeps_neighbours_(limits.neighbour_tolerance_quanta > 0),
        hosts_(hosts) {}

  // Appends a move for each of `vgs`, which live on the granule at `rank`, to
  // hosts below `end`; or does nothing and returns false. The largest first,
  // each to the fullest host that fits; but neighbours in address space, if
  // they are to be kept together, where a host that has taken something in
  // already, and is about as full, can take them all, or one that has taken in
  // a neighbour can.
  bool MoveOut(size_t rank, absl::Span<const uint32_t> vgs, size_t end,
               std::vector<PlannedMove>* moves);

  // In how many runs of neighbours the virtual granules are: what one call
  // gives access to.
  uint32_t CountRuns(absl::Span<const uint32_t> vgs);

 private:
  struct Item {
    uint32_t vg = 0;       // index into Snapshot::vgs
    uint32_t address = 0;  // its VgIndex
    size_t run_begin = 0;  // where its run begins in by_address_
    bool is_placed = false;
    size_t rank = 0;
    PlannerHosts::Load load;
  };

  void Fill(absl::Span<const uint32_t> vgs);
  bool Place(Item* item, size_t end);
  // Places all of the run of `item`, of which nothing is placed, on one host;
  // or does nothing. `first` is the host that `item` would get.
  bool PlaceRun(const Item& item, size_t first, size_t end);
  // Of the neighbours of `item`, the host of one that can take `item` instead
  // of `first`; `end` if none can.
  size_t HostOfNeighbour(const Item& item, size_t first, size_t end) const;
  void PlaceOn(size_t rank, Item* item);
  // Its run, as indices into items_.
  absl::Span<const size_t> RunOf(const Item& item) const;

  const Snapshot& snapshot_;
  const bool keeps_neighbours_;
  PlannerHosts* const hosts_;
  // Largest first; the first item_count_ are in use.
  std::vector<Item> items_;
  size_t item_count_ = 0;
  std::vector<size_t> by_address_;  // indices into items_
  std::vector<uint32_t> order_;
  PlannerHosts::Load run_load_;
};

}  // namespace firn

#endif  // FIRN_COMPACTION_PLANNER_MOVES_H_

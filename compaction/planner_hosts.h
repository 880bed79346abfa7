// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The granules of a snapshot as hosts: in the order in which a plan would fill
// them, with what they would hold, and the search for one that can take a
// virtual granule in.

#ifndef FIRN_COMPACTION_PLANNER_HOSTS_H_
#define FIRN_COMPACTION_PLANNER_HOSTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/compaction/occupancy.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/planner_columns.h"
#include "firn/compaction/snapshot.h"

namespace firn {

// Granules are named by rank: those with something pinned first, then the
// others; of either the fullest first, ties by position in the snapshot.
// Thread safety: none.
class PlannerHosts {
 public:
  // The snapshot must outlive this.
  PlannerHosts(const Snapshot& snapshot, const PlanLimits& limits);

  size_t count() const { return granules_.size(); }
  // Ranks below this have something pinned.
  size_t pinned_count() const { return pinned_count_; }
  // Index into Snapshot::granules.
  uint32_t granule(size_t rank) const { return granules_[rank]; }
  const SnapshotGranule& record(size_t rank) const {
    return snapshot_.granules[granules_[rank]];
  }
  // Whether a virtual granule has come to it, for good or for now.
  bool took_in(size_t rank) const { return took_in_.Has(rank); }

  // What is looked for a place for: one virtual granule, or several of one
  // granule that shall go together.
  struct Load {
    RowList rows;
    uint32_t live_quanta = 0;
    std::vector<uint32_t> vgs;  // indices into Snapshot::vgs
  };
  void Add(uint32_t vg, Load* load) const;

  // The fullest granule below `end` that can take all of `load`, of those with
  // something pinned if one of them can; `end` if none can.
  size_t Find(const Load& load, size_t end) const;
  // As `first`, which Find has found for part of `load`, but of those that
  // have taken something in already, and `first` itself; none that is emptier
  // than `first` by more than PlanLimits::neighbour_tolerance_quanta.
  size_t FindAmongTakers(const Load& load, size_t first, size_t end) const;
  // The same question for one of them.
  bool IsFitTaker(const Load& load, size_t rank, size_t first,
                  size_t end) const;

  // Puts `load` there, which must fit, until UndoAll or Keep.
  void TakeIn(size_t rank, const Load& load);
  void UndoAll();
  void Keep();

  // It takes nothing in from now on.
  void Close(size_t rank) { open_.Clear(rank); }
  void Reopen(size_t rank) {
    if (HasMappingsFor(rank, 1)) open_.Set(rank);
  }

 private:
  struct Taken {
    size_t rank = 0;
    uint32_t vg = 0;
    bool was_first = false;     // of those taken in
    size_t touched_before = 0;  // of touched_
  };

  bool HasMappingsFor(size_t rank, size_t more) const {
    return mappings_[rank] + more <= max_mappings_;
  }
  // The end of the ranks of the kind of `rank`, at most `end`.
  size_t EndOfKind(size_t rank, size_t end) const;
  size_t FindIn(const Load& load, const RankSet& among, Ranks ranks) const;
  // Whether what `load` has in part of a column is free there.
  bool FitsInPart(const Load& load, size_t rank) const;
  bool FitsExactly(const Load& load, size_t rank) const;
  Occupancy& ExactOf(size_t rank) const;
  void Mark(uint32_t vg, Occupancy* occupancy) const;

  const Snapshot& snapshot_;
  const uint32_t max_mappings_;
  const uint32_t tolerance_quanta_;
  size_t pinned_count_ = 0;
  std::vector<uint32_t> granules_;  // by rank
  std::vector<uint32_t> mappings_;  // by rank
  // By live quanta: the first rank with at most so many, of those with
  // something pinned and of the others.
  std::vector<size_t> first_pinned_;
  std::vector<size_t> first_other_;
  ColumnMatrix columns_;
  RankSet open_;
  RankSet took_in_;
  // What was taken in, by rank the last one, by virtual granule the one before.
  std::vector<uint32_t> last_taken_;
  std::vector<uint32_t> taken_before_;
  // Bitmaps of those granules that columns did not suffice for.
  mutable std::vector<Occupancy> exact_;  // by rank
  std::vector<Taken> taken_;              // until Keep
  std::vector<uint32_t> touched_;         // rows touched by them
};

}  // namespace firn

#endif  // FIRN_COMPACTION_PLANNER_HOSTS_H_

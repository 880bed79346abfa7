// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Who uses which offsets of which granule: for each virtual granule its role
// and window, for each granule its mappings, its live quanta and its gaps.
// Books only: no driver call is made here.

#ifndef FIRN_CORE_PLACEMENT_GRANULE_BOOKS_H_
#define FIRN_CORE_PLACEMENT_GRANULE_BOOKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "firn/compaction/occupancy.h"
#include "firn/core/placement/gap_index.h"
#include "firn/core/placement/granule_table.h"
#include "firn/core/placement/hole_index.h"
#include "firn/vmm/units.h"

namespace firn {

// A place for a new window.
struct Gap {
  GranuleId granule;
  OffsetInterval interval;
};

// The books of one arena, in a table that it shares with others: it changes
// and finds its own granules alone.
//
// Thread safety: none; guarded by its owner.
//
// Invariants:
//   (I2) live quanta of the virtual granules of one granule are disjoint;
//   (1)  a granule is in one of the gap indexes iff it is partly filled and
//        has a gap: with spares in one, without in the other;
//   (2)  a granule is in `empty_granules` iff nothing on it is live and none
//        of its virtual granules is kEmptyRun.
class GranuleBooks {
 public:
  // Does not own `table`, which must outlive it.
  GranuleBooks(uint32_t quanta_per_granule, uint32_t max_mappings,
               GranuleTable* table, ArenaIndex arena);
  GranuleBooks(const GranuleBooks&) = delete;
  GranuleBooks& operator=(const GranuleBooks&) = delete;

  uint32_t quanta_per_granule() const { return quanta_per_granule_; }
  uint32_t max_mappings() const { return max_mappings_; }
  ArenaIndex arena() const { return arena_; }
  // Of any arena.
  const VgRecord& vg(VgIndex vg) const { return vgs_[vg.value()]; }
  const GranuleRecord& granule(GranuleId granule) const {
    return granules_[granule.value()];
  }
  bool IsOwn(const GranuleRecord& record) const {
    return record.arena == arena_;
  }
  uint32_t granule_limit() const {
    return static_cast<uint32_t>(granules_.size());
  }

  // --- Mappings ---
  // `vg` has been mapped to `granule`; it becomes a spare.
  void Attach(VgIndex vg, GranuleId granule, bool of_large_run);
  // `vg`, a spare or part of an empty run, has been unmapped.
  void Detach(VgIndex vg);
  // `vg` and its live extents are on `to` now.
  void Move(VgIndex vg, GranuleId to, const OffsetInterval* extents,
            size_t extent_count);

  // Likewise of an interior, which stays alone on its granule.
  void MoveInterior(VgIndex vg, GranuleId to);
  // A granule without mappings is the arena's from now on, as one of host
  // memory: nothing new comes to it, and it counts apart; or is so no more.
  void SetHost(GranuleId granule, bool is_host);

  // --- Roles ---
  // A spare takes up a window or an interior.
  void Activate(VgIndex vg, VgRole role, OffsetInterval window, uint32_t owner);
  // What was activated, with nothing live now, becomes a spare.
  void Deactivate(VgIndex vg);
  // A spare that is alone on its empty granule joins an empty run, and back.
  void SetEmptyRun(VgIndex vg, bool empty_run);

  // --- Live quanta ---
  void AddLive(GranuleId granule, OffsetInterval interval);
  void RemoveLive(GranuleId granule, OffsetInterval interval);
  // A whole granule, filled by its only virtual granule.
  void FillInterior(VgIndex vg);
  void EmptyInterior(VgIndex vg);
  // The interiors of a large block, and so many virtual granules in all, count
  // as free though they are filled; and no more.
  void ParkInteriors(uint32_t interiors, uint32_t vgs) {
    parked_granules_ += interiors;
    parked_vgs_ += vgs;
  }
  void UnparkInteriors(uint32_t interiors, uint32_t vgs) {
    parked_granules_ -= interiors;
    parked_vgs_ -= vgs;
  }
  // No new window on this granule: an address that was lost may still reach it.
  void Freeze(GranuleId granule);
  // Likewise, for as long as a pass copies from it or to it; it also keeps the
  // mappings it has.
  void SetHeld(GranuleId granule, bool held);
  // Windows that have free slots, all of them under live bytes of others.
  void CountBlockedWindow(GranuleId granule, int change);

  // --- Searches ---
  // The best-fitting gap of a partly filled granule whose start is a multiple
  // of `alignment_quanta`: first where a spare can take it up, then where one
  // more mapping is allowed. Looks at a few of the tightest, then settles for
  // one that fits wherever it starts; no granule if it found none.
  Gap FindGap(uint32_t quanta, uint32_t alignment_quanta) const;
  // A gap at the very bottom or, unless `bottom_only`, the very top of a partly
  // filled granule.
  Gap FindEdgeGap(uint32_t quanta, bool bottom_only) const;
  // Likewise, windows or not.
  Gap FindEdgeHole(uint32_t quanta, bool bottom_only);
  // Whether no window touches `interval`.
  bool IsUnreserved(GranuleId granule, OffsetInterval interval) const;
  // A clear run of quanta, windows or not, on a partly filled granule: one
  // of the smallest that will do. For the last attempt before a failure; the
  // first search of its kind walks over all granules (see HoleIndex).
  Gap FindHole(uint32_t quanta, uint32_t alignment_quanta);
  // A spare of `granule`, none if it has none.
  VgIndex SpareOf(GranuleId granule) const;
  // Granules with nothing live, mapped by spares only; newest last.
  const std::vector<GranuleId>& empty_granules() const {
    return empty_granules_;
  }

  // --- Figures ---
  uint32_t used_granules() const { return used_granules_ - parked_granules_; }
  uint32_t full_granules() const { return full_granules_ - parked_granules_; }
  // Granules with mappings.
  uint32_t mapped_granules() const { return mapped_granules_; }
  uint32_t live_vgs() const { return live_vgs_ - parked_vgs_; }
  // Quanta that are free on the granules in use.
  uint64_t free_quanta_beside_live() const {
    return uint64_t{used_granules_} * quanta_per_granule_ - live_quanta_;
  }
  uint32_t partial_granules() const { return used_granules_ - full_granules_; }
  // Of host memory, which is in none of the above but live_vgs: granules with
  // something live, those with mappings, and what is live there.
  uint32_t used_host_granules() const { return used_host_granules_; }
  uint32_t mapped_host_granules() const { return mapped_host_granules_; }
  uint64_t live_host_quanta() const { return live_host_quanta_; }

  absl::Status CheckInvariants() const;

 private:
  GranuleRecord& MutableGranule(GranuleId granule);
  void LinkVg(VgIndex vg);
  void UnlinkVg(VgIndex vg);
  void SetUsed(GranuleRecord* record, uint32_t live_quanta);
  // Brings the indexes in line with a granule's state.
  void Reindex(GranuleId granule);
  void SetEmpty(GranuleId granule, bool empty);
  bool HasEmptyRun(const GranuleRecord& record) const;
  // The gaps between the windows on a granule, in order; returns their number.
  template <typename Visit>
  void ForEachGap(const GranuleRecord& record, Visit visit) const;
  OffsetInterval BestGap(GranuleId granule, uint32_t quanta,
                         uint32_t alignment_quanta) const;
  // The largest hole of `kind` that could be taken up; 0 if none could.
  uint32_t MeasureHole(GranuleId granule, HoleKind kind) const;
  GranuleId FindHoleOf(HoleKind kind, uint32_t quanta);

  const uint32_t quanta_per_granule_;
  const uint32_t max_mappings_;
  const ArenaIndex arena_;
  VgRecord* const vgs_;  // of the table
  std::vector<GranuleRecord>& granules_;
  GapIndex gaps_with_spare_;
  GapIndex gaps_without_spare_;
  HoleIndex holes_;
  std::vector<GranuleId> empty_granules_;
  uint64_t live_quanta_ = 0;
  uint32_t used_granules_ = 0;
  uint32_t full_granules_ = 0;
  uint32_t mapped_granules_ = 0;
  uint32_t live_vgs_ = 0;
  uint32_t parked_granules_ = 0;
  uint32_t parked_vgs_ = 0;
  uint32_t used_host_granules_ = 0;
  uint32_t mapped_host_granules_ = 0;
  uint64_t live_host_quanta_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_GRANULE_BOOKS_H_

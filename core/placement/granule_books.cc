// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/granule_books.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

// Granules looked at before a search settles for a larger gap.
constexpr int kGapTries = 8;
constexpr int kEdgeGapTries = 24;
// Windows that the searches have room for; mappings are bounded by it.
constexpr uint32_t kMostWindows = 64;

uint32_t AlignUp(uint32_t value, uint32_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

OffsetInterval MakeInterval(uint32_t lo, uint32_t hi) {
  OffsetInterval interval;
  interval.lo = lo;
  interval.hi = hi;
  return interval;
}

bool IsLiveRole(VgRole role) {
  return role == VgRole::kWindow || role == VgRole::kRemainder ||
         role == VgRole::kInterior || role == VgRole::kPlaced;
}

}  // namespace

GranuleBooks::GranuleBooks(uint32_t quanta_per_granule, uint32_t max_mappings,
                           GranuleTable* table, ArenaIndex arena)
    : quanta_per_granule_(quanta_per_granule),
      max_mappings_(std::min(max_mappings, kMostWindows)),
      arena_(arena),
      vgs_(table->vgs.data()),
      granules_(table->granules) {}

GranuleRecord& GranuleBooks::MutableGranule(GranuleId granule) {
  if (granule.value() >= granules_.size()) {
    granules_.resize(size_t{granule.value()} + 1);
  }
  // Other arenas may have made the table longer.
  if (holes_.limit() < granule_limit()) holes_.Resize(granule_limit());
  return granules_[granule.value()];
}

// --- The list of virtual granules of a granule ---

void GranuleBooks::LinkVg(VgIndex vg) {
  VgRecord& record = vgs_[vg.value()];
  GranuleRecord& granule = granules_[record.granule.value()];
  const bool is_spare = record.role == VgRole::kSpare;
  if (granule.mappings++ == 0) {
    ++(granule.is_host ? mapped_host_granules_ : mapped_granules_);
  }
  if (is_spare) ++granule.spares;
  // Spares stay in front: behind the first entry, if that is a spare and this
  // is not, the order of the rest does not matter as long as a walk finds
  // spares first. So others go behind the last spare.
  VgIndex before;
  if (!is_spare) {
    VgIndex at = granule.first;
    while (!at.is_none() && vgs_[at.value()].role == VgRole::kSpare) {
      before = at;
      at = vgs_[at.value()].next;
    }
  }
  record.previous = before;
  VgIndex& slot = before.is_none() ? granule.first : vgs_[before.value()].next;
  record.next = slot;
  if (!slot.is_none()) vgs_[slot.value()].previous = vg;
  slot = vg;
}

void GranuleBooks::UnlinkVg(VgIndex vg) {
  VgRecord& record = vgs_[vg.value()];
  GranuleRecord& granule = granules_[record.granule.value()];
  if (--granule.mappings == 0) {
    --(granule.is_host ? mapped_host_granules_ : mapped_granules_);
  }
  if (record.role == VgRole::kSpare) --granule.spares;
  if (record.previous.is_none()) {
    granule.first = record.next;
  } else {
    vgs_[record.previous.value()].next = record.next;
  }
  if (!record.next.is_none()) {
    vgs_[record.next.value()].previous = record.previous;
  }
  record.next = record.previous = VgIndex();
}

VgIndex GranuleBooks::SpareOf(GranuleId granule) const {
  const GranuleRecord& record = granules_[granule.value()];
  return record.spares > 0 ? record.first : VgIndex();
}

// --- Mappings ---

void GranuleBooks::Attach(VgIndex vg, GranuleId granule, bool of_large_run) {
  VgRecord& record = vgs_[vg.value()];
  MutableGranule(granule).arena = arena_;
  assert(record.role == VgRole::kUnmapped);
  record = VgRecord();
  record.granule = granule;
  record.arena = arena_;
  record.role = VgRole::kSpare;
  record.of_large_run = of_large_run;
  LinkVg(vg);
  Reindex(granule);
}

void GranuleBooks::Detach(VgIndex vg) {
  VgRecord& record = vgs_[vg.value()];
  assert(record.role == VgRole::kSpare || record.role == VgRole::kEmptyRun);
  const GranuleId granule = record.granule;
  UnlinkVg(vg);
  record = VgRecord();
  Reindex(granule);
}

void GranuleBooks::Move(VgIndex vg, GranuleId to, const OffsetInterval* extents,
                        size_t extent_count) {
  VgRecord& record = vgs_[vg.value()];
  const GranuleId from = record.granule;
  for (size_t i = 0; i < extent_count; ++i) RemoveLive(from, extents[i]);
  UnlinkVg(vg);
  record.granule = to;
  LinkVg(vg);
  for (size_t i = 0; i < extent_count; ++i) AddLive(to, extents[i]);
  Reindex(from);
  Reindex(to);
}

void GranuleBooks::MoveInterior(VgIndex vg, GranuleId to) {
  const GranuleId from = vgs_[vg.value()].granule;
  EmptyInterior(vg);
  UnlinkVg(vg);
  vgs_[vg.value()].granule = to;
  LinkVg(vg);
  FillInterior(vg);
  Reindex(from);
  Reindex(to);
}

void GranuleBooks::SetHost(GranuleId granule, bool is_host) {
  GranuleRecord& record = MutableGranule(granule);
  assert(record.mappings == 0 && record.live_quanta == 0);
  record.arena = arena_;
  record.is_host = is_host;
}

// --- Roles ---

void GranuleBooks::Activate(VgIndex vg, VgRole role, OffsetInterval window,
                            uint32_t owner) {
  VgRecord& record = vgs_[vg.value()];
  assert(record.role == VgRole::kSpare || record.role == VgRole::kEmptyRun);
  UnlinkVg(vg);
  record.role = role;
  record.window = window;
  record.owner = owner;
  LinkVg(vg);
  ++live_vgs_;
  Reindex(record.granule);
}

void GranuleBooks::Deactivate(VgIndex vg) {
  VgRecord& record = vgs_[vg.value()];
  assert(IsLiveRole(record.role));
  UnlinkVg(vg);
  record.role = VgRole::kSpare;
  record.window = OffsetInterval();
  record.owner = 0;
  LinkVg(vg);
  --live_vgs_;
  Reindex(record.granule);
}

void GranuleBooks::SetEmptyRun(VgIndex vg, bool empty_run) {
  VgRecord& record = vgs_[vg.value()];
  UnlinkVg(vg);
  record.role = empty_run ? VgRole::kEmptyRun : VgRole::kSpare;
  LinkVg(vg);
  Reindex(record.granule);
}

// --- Live quanta ---

void GranuleBooks::SetUsed(GranuleRecord* record, uint32_t live_quanta) {
  uint32_t& used = record->is_host ? used_host_granules_ : used_granules_;
  uint64_t& live = record->is_host ? live_host_quanta_ : live_quanta_;
  if (record->live_quanta == 0 && live_quanta > 0) ++used;
  if (record->live_quanta > 0 && live_quanta == 0) --used;
  live += live_quanta;
  live -= record->live_quanta;
  record->live_quanta = live_quanta;
}

void GranuleBooks::AddLive(GranuleId granule, OffsetInterval interval) {
  GranuleRecord& record = granules_[granule.value()];
  if (record.occupancy.empty()) {
    record.occupancy = Occupancy(quanta_per_granule_);
  }
  assert(!record.occupancy.AnyIn(interval));
  record.occupancy.Set(interval);
  const bool was_empty = record.live_quanta == 0;
  SetUsed(&record, record.live_quanta + interval.quanta());
  if (was_empty) Reindex(granule);
}

void GranuleBooks::RemoveLive(GranuleId granule, OffsetInterval interval) {
  GranuleRecord& record = granules_[granule.value()];
  assert(record.occupancy.AllIn(interval));
  record.occupancy.Clear(interval);
  SetUsed(&record, record.live_quanta - interval.quanta());
  holes_.MarkChanged(granule);
  if (record.live_quanta == 0) Reindex(granule);
}

void GranuleBooks::FillInterior(VgIndex vg) {
  GranuleRecord& record = granules_[vgs_[vg.value()].granule.value()];
  assert(record.mappings == 1 && record.live_quanta == 0);
  SetUsed(&record, quanta_per_granule_);
  if (!record.is_host) ++full_granules_;
}

void GranuleBooks::EmptyInterior(VgIndex vg) {
  GranuleRecord& record = granules_[vgs_[vg.value()].granule.value()];
  SetUsed(&record, 0);
  if (!record.is_host) --full_granules_;
}

void GranuleBooks::Freeze(GranuleId granule) {
  if (granule.value() >= granules_.size() ||
      !IsOwn(granules_[granule.value()])) {
    return;
  }
  granules_[granule.value()].frozen = true;
  Reindex(granule);
}

void GranuleBooks::SetHeld(GranuleId granule, bool held) {
  granules_[granule.value()].held = held;
  Reindex(granule);
}

void GranuleBooks::CountBlockedWindow(GranuleId granule, int change) {
  GranuleRecord& record = granules_[granule.value()];
  record.blocked_windows =
      static_cast<uint16_t>(record.blocked_windows + change);
}

// --- Indexes ---

bool GranuleBooks::HasEmptyRun(const GranuleRecord& record) const {
  return record.mappings == 1 &&
         vgs_[record.first.value()].role == VgRole::kEmptyRun;
}

void GranuleBooks::SetEmpty(GranuleId granule, bool empty) {
  uint32_t& position = granules_[granule.value()].empty_position;
  if ((position != 0) == empty) return;
  if (empty) {
    empty_granules_.push_back(granule);
    position = static_cast<uint32_t>(empty_granules_.size());
    return;
  }
  const GranuleId last = empty_granules_.back();
  empty_granules_[position - 1] = last;
  granules_[last.value()].empty_position = position;
  empty_granules_.pop_back();
  position = 0;
}

template <typename Visit>
void GranuleBooks::ForEachGap(const GranuleRecord& record, Visit visit) const {
  // Windows by start: insertion sort, as there are few and mostly in order.
  std::array<OffsetInterval, kMostWindows> windows;
  size_t count = 0;
  for (VgIndex at = record.first; !at.is_none(); at = vgs_[at.value()].next) {
    const VgRecord& vg = vgs_[at.value()];
    if (!IsLiveRole(vg.role)) continue;
    if (vg.role == VgRole::kInterior) return;
    size_t i = count++;
    for (; i > 0 && windows[i - 1].lo > vg.window.lo; --i) {
      windows[i] = windows[i - 1];
    }
    windows[i] = vg.window;
  }
  uint32_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    if (windows[i].lo > end) visit(MakeInterval(end, windows[i].lo));
    end = std::max(end, windows[i].hi);
  }
  if (end < quanta_per_granule_) visit(MakeInterval(end, quanta_per_granule_));
}

void GranuleBooks::Reindex(GranuleId granule) {
  holes_.MarkChanged(granule);
  GranuleRecord& record = granules_[granule.value()];
  uint32_t largest = 0;
  const bool is_live = record.live_quanta > 0;
  if (is_live) {
    ForEachGap(record, [&largest](OffsetInterval gap) {
      largest = std::max(largest, gap.quanta());
    });
  }
  record.largest_gap_quanta = largest;
  if (record.is_closed()) largest = 0;
  const bool can_map = record.mappings < max_mappings_;
  gaps_with_spare_.Set(granule, record.spares > 0 ? largest : 0);
  gaps_without_spare_.Set(granule, record.spares == 0 && can_map ? largest : 0);
  SetEmpty(granule, !is_live && !record.is_closed() && record.mappings > 0 &&
                        record.spares == record.mappings);
}

// --- Searches ---

OffsetInterval GranuleBooks::BestGap(GranuleId granule, uint32_t quanta,
                                     uint32_t alignment_quanta) const {
  OffsetInterval best;
  uint32_t best_gap = 0;
  ForEachGap(granules_[granule.value()], [&](OffsetInterval gap) {
    const uint32_t lo = AlignUp(gap.lo, alignment_quanta);
    if (lo > gap.hi || gap.hi - lo < quanta) return;
    if (best_gap != 0 && gap.quanta() >= best_gap) return;
    best_gap = gap.quanta();
    best = MakeInterval(lo, lo + quanta);
  });
  return best;
}

Gap GranuleBooks::FindGap(uint32_t quanta, uint32_t alignment_quanta) const {
  Gap gap;
  const auto accept = [&](GranuleId granule) {
    gap.interval = BestGap(granule, quanta, alignment_quanta);
    return gap.interval.quanta() > 0;
  };
  for (const GapIndex* index : {&gaps_with_spare_, &gaps_without_spare_}) {
    gap.granule = index->Find(quanta, kGapTries, accept);
    if (!gap.granule.is_none()) return gap;
    // Gaps too small, or aligned badly, must not hide one that is large enough
    // wherever it starts.
    gap.granule = index->FirstAtLeast(quanta + alignment_quanta - 1);
    if (!gap.granule.is_none() && accept(gap.granule)) return gap;
  }
  return Gap();
}

Gap GranuleBooks::FindEdgeGap(uint32_t quanta, bool bottom_only) const {
  Gap gap;
  const auto accept = [&](GranuleId granule) {
    const GranuleRecord& record = granules_[granule.value()];
    if (record.mappings >= max_mappings_) return false;
    bool found = false;
    ForEachGap(record, [&](OffsetInterval candidate) {
      if (found || candidate.quanta() < quanta) return;
      if (candidate.lo == 0) {
        gap.interval = MakeInterval(0, quanta);
        found = true;
      } else if (!bottom_only && candidate.hi == quanta_per_granule_) {
        gap.interval = MakeInterval(candidate.hi - quanta, candidate.hi);
        found = true;
      }
    });
    return found;
  };
  for (const GapIndex* index : {&gaps_without_spare_, &gaps_with_spare_}) {
    gap.granule = index->Find(quanta, kEdgeGapTries, accept);
    if (!gap.granule.is_none()) return gap;
  }
  return Gap();
}

bool GranuleBooks::IsUnreserved(GranuleId granule,
                                OffsetInterval interval) const {
  const GranuleRecord& record = granules_[granule.value()];
  for (VgIndex at = record.first; !at.is_none(); at = vgs_[at.value()].next) {
    const VgRecord& vg = vgs_[at.value()];
    if (vg.role == VgRole::kInterior) return false;
    if (!IsLiveRole(vg.role)) continue;
    if (vg.window.lo < interval.hi && interval.lo < vg.window.hi) return false;
  }
  return true;
}

uint32_t GranuleBooks::MeasureHole(GranuleId granule, HoleKind kind) const {
  const GranuleRecord& record = granules_[granule.value()];
  const bool can_map = record.mappings < max_mappings_;
  if (!IsOwn(record) || record.live_quanta == 0 ||
      record.live_quanta >= quanta_per_granule_ || record.is_closed() ||
      record.occupancy.empty()) {
    return 0;
  }
  if (kind.is_bottom() || kind.is_top()) {
    if (!can_map) return 0;
    return kind.is_bottom()
               ? record.occupancy.ClearRunFrom(0, quanta_per_granule_)
               : record.occupancy.ClearRunUpTo(quanta_per_granule_);
  }
  if (record.spares == 0 && !can_map) return 0;
  uint32_t largest = 0;
  uint32_t lo = 0;
  while (lo < quanta_per_granule_) {
    const uint32_t run = record.occupancy.ClearRunFrom(lo, quanta_per_granule_);
    largest = std::max(largest, run);
    const OffsetInterval next = record.occupancy.FindClearRun(
        largest + 1, lo + run, quanta_per_granule_);
    if (next.quanta() == 0) break;
    lo = AlignUp(next.lo, kind.alignment_quanta());
  }
  return largest;
}

GranuleId GranuleBooks::FindHoleOf(HoleKind kind, uint32_t quanta) {
  return holes_.Find(kind, quanta, [this](GranuleId granule, HoleKind of_kind) {
    return MeasureHole(granule, of_kind);
  });
}

Gap GranuleBooks::FindHole(uint32_t quanta, uint32_t alignment_quanta) {
  Gap hole;
  hole.granule = FindHoleOf(HoleKind::Aligned(alignment_quanta), quanta);
  if (hole.granule.is_none()) return hole;
  const Occupancy& occupancy = granules_[hole.granule.value()].occupancy;
  uint32_t lo = 0;
  while (true) {
    const uint32_t run = occupancy.ClearRunFrom(lo, quanta_per_granule_);
    if (run >= quanta) break;
    lo = AlignUp(
        occupancy.FindClearRun(quanta, lo + run, quanta_per_granule_).lo,
        alignment_quanta);
  }
  hole.interval = MakeInterval(lo, lo + quanta);
  return hole;
}

Gap GranuleBooks::FindEdgeHole(uint32_t quanta, bool bottom_only) {
  Gap hole;
  hole.granule = FindHoleOf(HoleKind::Bottom(), quanta);
  hole.interval = MakeInterval(0, quanta);
  if (!hole.granule.is_none() || bottom_only) return hole;
  hole.granule = FindHoleOf(HoleKind::Top(), quanta);
  hole.interval =
      MakeInterval(quanta_per_granule_ - quanta, quanta_per_granule_);
  return hole;
}

absl::Status GranuleBooks::CheckInvariants() const {
  uint32_t used = 0;
  uint32_t full = 0;
  uint32_t mapped = 0;
  uint32_t live_vgs = 0;
  uint32_t used_host = 0;
  uint32_t mapped_host = 0;
  uint64_t live_host_quanta = 0;
  for (uint32_t i = 0; i < granules_.size(); ++i) {
    const GranuleRecord& record = granules_[i];
    if (!IsOwn(record)) continue;
    uint32_t mappings = 0;
    uint32_t spares = 0;
    bool interior = false;
    for (VgIndex at = record.first; !at.is_none(); at = vgs_[at.value()].next) {
      const VgRecord& vg = vgs_[at.value()];
      ++mappings;
      if (vg.granule != GranuleId(i) || vg.arena != arena_) {
        return absl::InternalError(absl::StrCat(
            "virtual granule ", at.value(), " is in the list of granule ", i));
      }
      if (vg.role == VgRole::kSpare) ++spares;
      if (vg.role == VgRole::kInterior) interior = true;
      if (IsLiveRole(vg.role)) ++live_vgs;
    }
    if (mappings != record.mappings || spares != record.spares) {
      return absl::InternalError(absl::StrCat(
          "granule ", i, " counts ", record.mappings, " mappings and ",
          record.spares, " spares, has ", mappings, " and ", spares));
    }
    if (interior && mappings != 1) {
      return absl::InternalError(
          absl::StrCat("I2: granule ", i, " is filled and shared"));
    }
    if (record.is_host) {
      if (record.live_quanta > 0) ++used_host;
      if (mappings > 0) ++mapped_host;
      live_host_quanta += record.live_quanta;
    } else {
      if (record.live_quanta > 0) ++used;
      if (mappings > 0) ++mapped;
      if (interior) ++full;
    }
    const bool is_empty = record.live_quanta == 0 && !record.is_closed() &&
                          mappings > 0 && spares == mappings;
    if (is_empty != (record.empty_position != 0)) {
      return absl::InternalError(
          absl::StrCat("granule ", i, " is in the wrong index"));
    }
    if (record.live_quanta == 0 && !HasEmptyRun(record) && spares != mappings) {
      return absl::InternalError(
          absl::StrCat("granule ", i, " has windows but nothing live"));
    }
  }
  if (used != used_granules_ || full != full_granules_ ||
      mapped != mapped_granules_ || live_vgs != live_vgs_) {
    return absl::InternalError(
        absl::StrCat("counted ", used_granules_, " used and ", full_granules_,
                     " full granules, ", mapped_granules_, " mapped, ",
                     live_vgs_, " live virtual granules; there are ", used,
                     ", ", full, ", ", mapped, " and ", live_vgs));
  }
  if (used_host != used_host_granules_ ||
      mapped_host != mapped_host_granules_ ||
      live_host_quanta != live_host_quanta_) {
    return absl::InternalError(absl::StrCat(
        "counted ", used_host_granules_, " used granules of host memory and ",
        mapped_host_granules_, " mapped, ", live_host_quanta_,
        " live quanta; there are ", used_host, ", ", mapped_host, " and ",
        live_host_quanta));
  }
  return absl::OkStatus();
}

}  // namespace firn

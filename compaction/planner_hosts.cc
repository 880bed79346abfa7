// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/planner_hosts.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace firn {
namespace {

constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

// Hosts compared quantum by quantum in one search. Past them only those count
// that are clear in every column concerned.
constexpr uint32_t kExactTries = 64;

}  // namespace

PlannerHosts::PlannerHosts(const Snapshot& snapshot, const PlanLimits& limits)
    : snapshot_(snapshot),
      max_mappings_(limits.max_mappings_per_granule),
      tolerance_quanta_(limits.neighbour_tolerance_quanta),
      granules_(snapshot.granules.size()),
      first_pinned_(snapshot.quanta_per_granule + 1, 0),
      first_other_(snapshot.quanta_per_granule + 1, 0),
      columns_(snapshot.quanta_per_granule, snapshot.granules.size()),
      open_(snapshot.granules.size()),
      took_in_(snapshot.granules.size()),
      last_taken_(snapshot.granules.size(), kNobody),
      taken_before_(snapshot.vgs.size(), kNobody),
      exact_(snapshot.granules.size()) {
  // So that the order is the same each time, ties by position.
  std::vector<bool> is_pinned(granules_.size());
  for (size_t i = 0; i < granules_.size(); ++i) {
    is_pinned[i] = snapshot.IsPinned(snapshot.granules[i]);
    if (is_pinned[i]) ++pinned_count_;
  }
  std::iota(granules_.begin(), granules_.end(), 0u);
  std::sort(granules_.begin(), granules_.end(), [&](uint32_t a, uint32_t b) {
    if (is_pinned[a] != is_pinned[b]) return bool{is_pinned[a]};
    const uint32_t live_a = snapshot.granules[a].live_quanta;
    const uint32_t live_b = snapshot.granules[b].live_quanta;
    return live_a != live_b ? live_a > live_b : a < b;
  });
  mappings_.reserve(count());
  for (size_t rank = 0; rank < count(); ++rank) {
    const SnapshotGranule& granule = record(rank);
    mappings_.push_back(granule.mappings);
    if (HasMappingsFor(rank, 1)) open_.Set(rank);
    for (const SnapshotVg& vg : snapshot.VgsOf(granule)) {
      columns_.TouchAll(rank, snapshot.ExtentsOf(vg));
    }
  }
  size_t pinned = pinned_count_;
  size_t other = count();
  for (uint32_t live = 0; live <= snapshot.quanta_per_granule; ++live) {
    while (pinned > 0 && record(pinned - 1).live_quanta <= live) --pinned;
    while (other > pinned_count_ && record(other - 1).live_quanta <= live) {
      --other;
    }
    first_pinned_[live] = pinned;
    first_other_[live] = other;
  }
}

void PlannerHosts::Add(uint32_t vg, Load* load) const {
  columns_.AppendRows(snapshot_.ExtentsOf(snapshot_.vgs[vg]), &load->rows);
  load->live_quanta += snapshot_.vgs[vg].live_quanta;
  load->vgs.push_back(vg);
}

size_t PlannerHosts::EndOfKind(size_t rank, size_t end) const {
  return rank < pinned_count_ ? std::min(pinned_count_, end) : end;
}

size_t PlannerHosts::Find(const Load& load, size_t end) const {
  // None that is fuller in the snapshot has room.
  const uint32_t most_live = snapshot_.quanta_per_granule - load.live_quanta;
  Ranks ranks;
  ranks.begin = first_pinned_[most_live];
  ranks.end = std::min(pinned_count_, end);
  const size_t pinned = FindIn(load, open_, ranks);
  if (pinned < ranks.end) return pinned;
  ranks.begin = first_other_[most_live];
  ranks.end = end;
  return ranks.begin < end ? FindIn(load, open_, ranks) : end;
}

size_t PlannerHosts::FindIn(const Load& load, const RankSet& among,
                            Ranks ranks) const {
  const size_t end = ranks.end;
  uint32_t exact_tries = 0;
  while (ranks.begin < end) {
    const size_t rank =
        columns_.FindClear(load.rows.must_be_clear, among, ranks);
    if (rank >= end || FitsInPart(load, rank)) return rank;
    if (exact_tries < kExactTries) {
      ++exact_tries;
      if (FitsExactly(load, rank)) return rank;
    }
    ranks.begin = rank + 1;
  }
  return end;
}

bool PlannerHosts::FitsInPart(const Load& load, size_t rank) const {
  for (const uint32_t column : load.rows.part) {
    if (columns_.IsTouched(rank, column)) return false;
  }
  return true;
}

bool PlannerHosts::FitsExactly(const Load& load, size_t rank) const {
  const Occupancy& occupancy = ExactOf(rank);
  for (const uint32_t vg : load.vgs) {
    for (const OffsetInterval& extent :
         snapshot_.ExtentsOf(snapshot_.vgs[vg])) {
      if (occupancy.AnyIn(extent)) return false;
    }
  }
  return true;
}

Occupancy& PlannerHosts::ExactOf(size_t rank) const {
  Occupancy& occupancy = exact_[rank];
  if (occupancy.empty()) {
    occupancy = Occupancy(snapshot_.quanta_per_granule);
    const SnapshotGranule& granule = record(rank);
    for (uint32_t i = 0; i < granule.vg_count; ++i) {
      Mark(granule.first_vg + i, &occupancy);
    }
    for (uint32_t vg = last_taken_[rank]; vg != kNobody;
         vg = taken_before_[vg]) {
      Mark(vg, &occupancy);
    }
  }
  return occupancy;
}

void PlannerHosts::Mark(uint32_t vg, Occupancy* occupancy) const {
  for (const OffsetInterval& extent : snapshot_.ExtentsOf(snapshot_.vgs[vg])) {
    occupancy->Set(extent);
  }
}

size_t PlannerHosts::FindAmongTakers(const Load& load, size_t first,
                                     size_t end) const {
  if (IsFitTaker(load, first, first, end)) return first;
  const uint32_t live = record(first).live_quanta;
  Ranks ranks;
  ranks.begin = first + 1;
  ranks.end = EndOfKind(first, end);
  if (live > tolerance_quanta_) {
    const auto& first_with =
        first < pinned_count_ ? first_pinned_ : first_other_;
    ranks.end = std::min(ranks.end, first_with[live - tolerance_quanta_ - 1]);
  }
  if (ranks.begin >= ranks.end) return end;
  size_t rank = ranks.begin;
  // Those that have taken something in may be closed or short of mappings.
  while ((rank = FindIn(load, took_in_, ranks)) < ranks.end) {
    if (open_.Has(rank) && HasMappingsFor(rank, load.vgs.size())) return rank;
    ranks.begin = rank + 1;
  }
  return end;
}

bool PlannerHosts::IsFitTaker(const Load& load, size_t rank, size_t first,
                              size_t end) const {
  if (rank < first || rank >= EndOfKind(first, end) || !open_.Has(rank) ||
      !HasMappingsFor(rank, load.vgs.size()) ||
      (rank != first && !took_in_.Has(rank))) {
    return false;
  }
  if (record(rank).live_quanta + tolerance_quanta_ <
      record(first).live_quanta) {
    return false;
  }
  for (const uint32_t row : load.rows.must_be_clear) {
    if (columns_.IsTouched(rank, row)) return false;
  }
  return FitsInPart(load, rank) || FitsExactly(load, rank);
}

void PlannerHosts::TakeIn(size_t rank, const Load& load) {
  for (const uint32_t vg : load.vgs) {
    Taken taken;
    taken.rank = rank;
    taken.vg = vg;
    taken.was_first = !took_in_.Has(rank);
    taken.touched_before = touched_.size();
    taken_.push_back(taken);
    took_in_.Set(rank);
    taken_before_[vg] = last_taken_[rank];
    last_taken_[rank] = vg;
    ++mappings_[rank];
    if (!exact_[rank].empty()) Mark(vg, &exact_[rank]);
  }
  if (!HasMappingsFor(rank, 1)) open_.Clear(rank);
  // On account of the last one: all are undone together.
  for (const uint32_t row : load.rows.touched) {
    if (columns_.Touch(rank, row)) touched_.push_back(row);
  }
}

void PlannerHosts::UndoAll() {
  while (!taken_.empty()) {
    const Taken& taken = taken_.back();
    while (touched_.size() > taken.touched_before) {
      columns_.Untouch(taken.rank, touched_.back());
      touched_.pop_back();
    }
    if (!exact_[taken.rank].empty()) {
      for (const OffsetInterval& extent :
           snapshot_.ExtentsOf(snapshot_.vgs[taken.vg])) {
        exact_[taken.rank].Clear(extent);
      }
    }
    --mappings_[taken.rank];
    open_.Set(taken.rank);
    last_taken_[taken.rank] = taken_before_[taken.vg];
    if (taken.was_first) took_in_.Clear(taken.rank);
    taken_.pop_back();
  }
}

void PlannerHosts::Keep() {
  taken_.clear();
  touched_.clear();
}

}  // namespace firn

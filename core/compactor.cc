// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/compactor.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace firn {
namespace {

// Moves of one batch, and with it the time for which a failure is undone and
// between two looks at the clock. Whole sources only: a batch may be longer.
constexpr size_t kMovesPerBatch = 128;
// Hosts that have as many mappings lose their spares before a pass, so that
// they can take something in.
constexpr uint32_t kCrowdedMappings = 32;

}  // namespace

Compactor::Compactor(Backing* backing, WindowAllocator* windows,
                     Relocator* relocator, const PinnedBlocks* pins,
                     MoveObserver* observer)
    : backing_(backing),
      books_(&backing->books()),
      windows_(windows),
      pins_(pins),
      observer_(observer),
      batch_(backing, windows, relocator, pins, observer) {}

void Compactor::FillSnapshot(Snapshot* snapshot) const {
  snapshot->quanta_per_granule = books_->quanta_per_granule();
  snapshot->full_granules = books_->full_granules();
  snapshot->granules.clear();
  snapshot->vgs.clear();
  snapshot->extents.clear();
  const std::vector<VgIndex> pinned = pins_->PinnedVgs();
  for (uint32_t i = 0; i < books_->granule_limit(); ++i) {
    const GranuleRecord& record = books_->granule(GranuleId(i));
    if (!books_->IsOwn(record)) continue;
    // What was lost can neither be read nor moved.
    if (record.live_quanta > 0 && record.frozen &&
        books_->vg(record.first).role != VgRole::kInterior) {
      ++snapshot->full_granules;
      continue;
    }
    if (record.live_quanta == 0 ||
        books_->vg(record.first).role == VgRole::kInterior) {
      continue;
    }
    SnapshotGranule granule;
    granule.granule = GranuleId(i);
    granule.live_quanta = record.live_quanta;
    granule.first_vg = static_cast<uint32_t>(snapshot->vgs.size());
    granule.mappings = record.mappings;
    for (VgIndex at = record.first; !at.is_none(); at = books_->vg(at).next) {
      const VgRecord& vg = books_->vg(at);
      if (vg.role == VgRole::kSpare) continue;
      SnapshotVg entry;
      entry.vg = at;
      entry.is_pinned = std::binary_search(pinned.begin(), pinned.end(), at);
      entry.first_extent = static_cast<uint32_t>(snapshot->extents.size());
      if (vg.role == VgRole::kWindow) {
        windows_->AppendLiveExtents(vg.owner, &snapshot->extents);
      } else {
        snapshot->extents.push_back(vg.window);
      }
      entry.extent_count =
          static_cast<uint32_t>(snapshot->extents.size()) - entry.first_extent;
      for (const OffsetInterval& extent : snapshot->ExtentsOf(entry)) {
        entry.live_quanta += extent.quanta();
      }
      snapshot->vgs.push_back(entry);
    }
    granule.vg_count =
        static_cast<uint32_t>(snapshot->vgs.size()) - granule.first_vg;
    snapshot->granules.push_back(granule);
  }
}

LowerBounds Compactor::ComputeBounds() {
  // Not the one of a pass, which may be waiting for its hooks.
  FillSnapshot(&bounds_snapshot_);
  return ComputeLowerBounds(bounds_snapshot_);
}

absl::Status Compactor::Prepare(bool dry_run, CompactionReport* report) {
  if (!dry_run) {
    const absl::StatusOr<uint32_t> unmapped =
        backing_->UnmapSpares(kCrowdedMappings);
    if (!unmapped.ok()) return unmapped.status();
  }
  FillSnapshot(&snapshot_);
  report->granules_before = books_->used_granules();
  report->granules_after = report->granules_before;
  report->lower_bound_granules = ComputeLowerBounds(snapshot_).max();
  return absl::OkStatus();
}

void Compactor::Count(const MoveBatch::Result& result,
                      CompactionReport* report) {
  report->moves += result.moves;
  report->bytes_copied += QuantaToBytes(result.quanta);
  report->vetoed_sources += result.vetoed_sources;
  report->rejected_sources += result.changed_sources;
}

absl::Status Compactor::OpenHole(uint32_t quanta, uint32_t alignment_quanta,
                                 CompactionReport* report) {
  const absl::Time start = absl::Now();
  absl::Status status = Prepare(/*dry_run=*/false, report);
  if (!status.ok()) return status;
  PlanLimits limits;
  limits.max_mappings_per_granule = books_->max_mappings();
  const Plan plan = MakeHolePlan(snapshot_, quanta, alignment_quanta, limits);
  report->pinned_granules = plan.pinned_granules;
  MoveBatch::Kind kind;
  kind.empties_sources = false;
  kind.is_announced = observer_->has_hooks();
  MoveBatch::Result result;
  status = batch_.Run(snapshot_, plan.moves, kind, &result);
  Count(result, report);
  if (!status.ok()) return status;
  report->granules_after = books_->used_granules();
  // Hooks may have taken granules meanwhile.
  report->granules_recovered =
      report->granules_before -
      std::min(report->granules_before, report->granules_after);
  report->duration = absl::Now() - start;
  return absl::OkStatus();
}

absl::Status Compactor::Run(const CompactOptions& options,
                            CompactionReport* report) {
  const absl::Time start = absl::Now();
  absl::Status status = Prepare(options.dry_run, report);
  if (!status.ok()) return status;

  PlanLimits limits;
  limits.max_mappings_per_granule = books_->max_mappings();
  if (options.max_bytes > 0) {
    limits.max_quanta = options.max_bytes / kQuantumBytes;
  }
  if (options.max_moves > 0) limits.max_moves = options.max_moves;
  if (options.wanted_granules > 0) {
    limits.wanted_granules = options.wanted_granules;
  }
  const Plan plan = MakePlan(snapshot_, limits);
  report->rejected_sources = plan.rejected_sources;
  report->pinned_granules = plan.pinned_granules;
  report->budget_exhausted = plan.limited;

  MoveBatch::Kind kind;
  kind.is_announced = observer_->has_hooks();
  size_t begin = 0;
  while (begin < plan.moves.size()) {
    if (absl::Now() - start > options.max_duration) {
      report->budget_exhausted = true;
      break;
    }
    MoveBatch::Result result;
    size_t end = begin;
    while (end < plan.moves.size() && end - begin < kMovesPerBatch) {
      const uint32_t from = plan.moves[end].from;
      if (options.dry_run) ++result.sources;
      for (; end < plan.moves.size() && plan.moves[end].from == from; ++end) {
        if (!options.dry_run) continue;
        ++result.moves;
        result.quanta += snapshot_.vgs[plan.moves[end].vg].live_quanta;
      }
    }
    if (!options.dry_run) {
      status = batch_.Run(
          snapshot_,
          absl::MakeConstSpan(plan.moves).subspan(begin, end - begin), kind,
          &result);
    }
    report->granules_recovered += result.sources;
    Count(result, report);
    if (!status.ok()) break;
    begin = end;
  }
  report->granules_after = report->granules_before - report->granules_recovered;
  report->duration = absl::Now() - start;
  return status;
}

}  // namespace firn

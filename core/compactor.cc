// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/compactor.h"

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
                     Relocator* relocator)
    : backing_(backing),
      books_(&backing->books()),
      windows_(windows),
      relocator_(relocator) {}

void Compactor::FillSnapshot() {
  snapshot_.quanta_per_granule = books_->quanta_per_granule();
  snapshot_.full_granules = books_->full_granules();
  snapshot_.granules.clear();
  snapshot_.vgs.clear();
  snapshot_.extents.clear();
  for (uint32_t i = 0; i < books_->granule_limit(); ++i) {
    const GranuleRecord& record = books_->granule(GranuleId(i));
    // What was lost can neither be read nor moved.
    if (record.live_quanta > 0 && record.frozen &&
        books_->vg(record.first).role != VgRole::kInterior) {
      ++snapshot_.full_granules;
      continue;
    }
    if (record.live_quanta == 0 ||
        books_->vg(record.first).role == VgRole::kInterior) {
      continue;
    }
    SnapshotGranule granule;
    granule.granule = GranuleId(i);
    granule.live_quanta = record.live_quanta;
    granule.first_vg = static_cast<uint32_t>(snapshot_.vgs.size());
    granule.mappings = record.mappings;
    for (VgIndex at = record.first; !at.is_none(); at = books_->vg(at).next) {
      const VgRecord& vg = books_->vg(at);
      if (vg.role == VgRole::kSpare) continue;
      SnapshotVg entry;
      entry.vg = at;
      entry.first_extent = static_cast<uint32_t>(snapshot_.extents.size());
      if (vg.role == VgRole::kWindow) {
        windows_->AppendLiveExtents(vg.owner, &snapshot_.extents);
      } else {
        snapshot_.extents.push_back(vg.window);
      }
      entry.extent_count =
          static_cast<uint32_t>(snapshot_.extents.size()) - entry.first_extent;
      for (const OffsetInterval& extent : snapshot_.ExtentsOf(entry)) {
        entry.live_quanta += extent.quanta();
      }
      snapshot_.vgs.push_back(entry);
    }
    granule.vg_count =
        static_cast<uint32_t>(snapshot_.vgs.size()) - granule.first_vg;
    snapshot_.granules.push_back(granule);
  }
}

LowerBounds Compactor::ComputeBounds() {
  FillSnapshot();
  return ComputeLowerBounds(snapshot_);
}

VgIndex Compactor::AnyVgOf(GranuleId granule) const {
  return books_->granule(granule).first;
}

absl::Status Compactor::RelocateAndPublish(const Plan& plan, size_t begin,
                                           size_t end) {
  relocations_.clear();
  for (size_t i = begin; i < end; ++i) {
    const PlannedMove& move = plan.moves[i];
    const SnapshotVg& vg = snapshot_.vgs[move.vg];
    Relocation relocation;
    relocation.vg = vg.vg;
    relocation.to = snapshot_.granules[move.to].granule;
    relocation.through = AnyVgOf(relocation.to);
    relocation.extents = snapshot_.ExtentsOf(vg);
    relocations_.push_back(relocation);
  }
  const absl::Status status = relocator_->Relocate(relocations_);
  if (!status.ok()) return status;
  for (size_t i = begin; i < end; ++i) {
    const PlannedMove& move = plan.moves[i];
    const Relocation& done = relocations_[i - begin];
    const VgRecord& record = books_->vg(done.vg);
    const GranuleId from = record.granule;
    if (record.role == VgRole::kWindow) windows_->PrepareMove(record.owner);
    books_->Move(done.vg, done.to, done.extents.data(), done.extents.size());
    windows_->UnblockAll(from);
    const bool source_is_done =
        i + 1 == plan.moves.size() || plan.moves[i + 1].from != move.from;
    if (source_is_done) backing_->CacheIfUnmapped(from);
  }
  return absl::OkStatus();
}

absl::Status Compactor::Prepare(bool dry_run, CompactionReport* report) {
  if (!dry_run) {
    const absl::StatusOr<uint32_t> unmapped =
        backing_->UnmapSpares(kCrowdedMappings);
    if (!unmapped.ok()) return unmapped.status();
  }
  FillSnapshot();
  report->granules_before = books_->used_granules();
  report->granules_after = report->granules_before;
  report->lower_bound_granules = ComputeLowerBounds(snapshot_).max();
  return absl::OkStatus();
}

absl::Status Compactor::OpenHole(uint32_t quanta, uint32_t alignment_quanta,
                                 CompactionReport* report) {
  const absl::Time start = absl::Now();
  absl::Status status = Prepare(/*dry_run=*/false, report);
  if (!status.ok()) return status;
  PlanLimits limits;
  limits.max_mappings_per_granule = books_->max_mappings();
  const Plan plan = MakeHolePlan(snapshot_, quanta, alignment_quanta, limits);
  status = RelocateAndPublish(plan, 0, plan.moves.size());
  if (!status.ok()) return status;
  report->moves = plan.moves.size();
  report->bytes_copied = QuantaToBytes(plan.copied_quanta);
  report->granules_after = books_->used_granules();
  report->granules_recovered = report->granules_before - report->granules_after;
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
  report->budget_exhausted = plan.limited;

  size_t begin = 0;
  while (begin < plan.moves.size()) {
    if (absl::Now() - start > options.max_duration) {
      report->budget_exhausted = true;
      break;
    }
    uint64_t sources = 0;
    uint64_t quanta = 0;
    size_t end = begin;
    while (end < plan.moves.size() && end - begin < kMovesPerBatch) {
      const uint32_t from = plan.moves[end].from;
      ++sources;
      for (; end < plan.moves.size() && plan.moves[end].from == from; ++end) {
        quanta += snapshot_.vgs[plan.moves[end].vg].live_quanta;
      }
    }
    if (!options.dry_run) {
      status = RelocateAndPublish(plan, begin, end);
      if (!status.ok()) break;
    }
    report->granules_recovered += sources;
    report->moves += end - begin;
    report->bytes_copied += QuantaToBytes(quanta);
    begin = end;
  }
  report->granules_after = report->granules_before - report->granules_recovered;
  report->duration = absl::Now() - start;
  return status;
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/compactor.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "firn/compaction/free_space.h"

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
                     PlacementAllocator* placed, Relocator* relocator,
                     const PinnedBlocks* pins, MoveObserver* observer)
    : backing_(backing),
      books_(&backing->books()),
      windows_(windows),
      placed_(placed),
      pins_(pins),
      observer_(observer),
      batch_(backing, windows, placed, relocator, pins, observer) {}

bool Compactor::AppendPacked(const GranuleRecord& record,
                             absl::Span<const VgIndex> pinned,
                             Snapshot* snapshot) const {
  if (record.live_quanta < books_->quanta_per_granule()) return false;
  std::vector<uint32_t>& quanta = snapshot->packed_vg_quanta;
  const size_t before = quanta.size();
  for (VgIndex at = record.first; !at.is_none(); at = books_->vg(at).next) {
    const VgRecord& vg = books_->vg(at);
    if (vg.role == VgRole::kSpare) continue;
    if (std::binary_search(pinned.begin(), pinned.end(), at)) {
      quanta.resize(before);
      return false;
    }
    quanta.push_back(vg.role == VgRole::kWindow ? windows_->LiveQuanta(vg.owner)
                     : vg.role == VgRole::kPlaced ? placed_->LiveQuanta(at)
                                                  : vg.window.quanta());
  }
  ++snapshot->packed_granules;
  return true;
}

uint32_t Compactor::FillSnapshot(bool quiet_only, Snapshot* snapshot) const {
  uint32_t pinned_granules = 0;
  snapshot->quanta_per_granule = books_->quanta_per_granule();
  snapshot->full_granules = books_->full_granules();
  snapshot->packed_granules = 0;
  snapshot->packed_vg_quanta.clear();
  snapshot->granules.clear();
  snapshot->vgs.clear();
  snapshot->extents.clear();
  const std::vector<VgIndex> pinned = pins_->PinnedVgs();
  for (uint32_t i = 0; i < books_->granule_limit(); ++i) {
    const GranuleRecord& record = books_->granule(GranuleId(i));
    if (!books_->IsOwn(record) || record.is_host) continue;
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
    // Of declared memory it is asked what is in use.
    if (!quiet_only && AppendPacked(record, pinned, snapshot)) continue;
    SnapshotGranule granule;
    granule.granule = GranuleId(i);
    granule.live_quanta = record.live_quanta;
    granule.first_vg = static_cast<uint32_t>(snapshot->vgs.size());
    granule.mappings = record.mappings;
    bool is_pinned = false;
    for (VgIndex at = record.first; !at.is_none(); at = books_->vg(at).next) {
      const VgRecord& vg = books_->vg(at);
      if (vg.role == VgRole::kSpare) continue;
      SnapshotVg entry;
      entry.vg = at;
      entry.is_pinned = std::binary_search(pinned.begin(), pinned.end(), at);
      is_pinned |= entry.is_pinned;
      if (quiet_only && !entry.is_pinned) {
        entry.is_pinned = !observer_->IsQuiet(at);
      }
      entry.first_extent = static_cast<uint32_t>(snapshot->extents.size());
      batch_.AppendLiveExtents(at, &snapshot->extents);
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
    if (is_pinned) ++pinned_granules;
  }
  return pinned_granules;
}

Snapshot Compactor::TakeSnapshotNow() const {
  Snapshot snapshot;
  FillSnapshot(/*quiet_only=*/false, &snapshot);
  return snapshot;
}

LiveFigures Compactor::ComputeFigures() {
  // Not the one of a pass, which may be waiting for its hooks.
  FillSnapshot(/*quiet_only=*/false, &bounds_snapshot_);
  LiveFigures figures;
  figures.bounds = ComputeLowerBounds(bounds_snapshot_);
  figures.largest_hole_quanta =
      FindFreeSpace(bounds_snapshot_, /*free_granules=*/0).LargestHoleQuanta();
  return figures;
}

absl::Status Compactor::UnmapSpares() {
  return backing_->UnmapSpares(kCrowdedMappings).status();
}

void Compactor::TakeSnapshot(bool quiet_only, Planned* planned) const {
  planned->pinned_granules = FillSnapshot(quiet_only, &planned->snapshot);
}

void Compactor::MakePlanOf(const CompactOptions& options,
                           Planned* planned) const {
  planned->lower_bound_granules = ComputeLowerBounds(planned->snapshot).max();
  planned->plan = MakePlan(planned->snapshot, LimitsOf(options));
}

void Compactor::TakeSnapshotAhead() {
  is_planned_ahead_ = false;
  TakeSnapshot(/*quiet_only=*/false, &planned_ahead_);
}

void Compactor::PlanAhead(const CompactOptions& options) {
  MakePlanOf(options, &planned_ahead_);
  is_planned_ahead_ = true;
}

PlanLimits Compactor::LimitsOf(const CompactOptions& options) const {
  PlanLimits limits;
  limits.max_mappings_per_granule = books_->max_mappings();
  if (options.max_bytes > 0) {
    limits.max_quanta = options.max_bytes / kQuantumBytes;
  }
  if (options.max_moves > 0) limits.max_moves = options.max_moves;
  if (options.wanted_granules > 0) {
    limits.wanted_granules = options.wanted_granules;
  }
  return limits;
}

void Compactor::Cut(const PlanLimits& limits, Planned* planned) {
  Plan& plan = planned->plan;
  uint64_t quanta = 0;
  uint32_t sources = 0;
  for (size_t begin = 0; begin < plan.moves.size(); ++sources) {
    const uint32_t from = plan.moves[begin].from;
    size_t end = begin;
    while (end < plan.moves.size() && plan.moves[end].from == from) ++end;
    quanta += planned->snapshot.granules[from].live_quanta;
    if (sources >= limits.wanted_granules || end > limits.max_moves ||
        quanta > limits.max_quanta) {
      plan.limited |= sources < limits.wanted_granules;
      plan.moves.resize(begin);
      break;
    }
    begin = end;
  }
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
  absl::Status status = UnmapSpares();
  if (!status.ok()) return status;
  TakeSnapshot(/*quiet_only=*/false, &planned_);
  const Snapshot& snapshot = planned_.snapshot;
  report->granules_before = books_->used_granules();
  report->granules_after = report->granules_before;
  const Plan plan = MakeHolePlan(snapshot, quanta, alignment_quanta,
                                 LimitsOf(CompactOptions()));
  MoveBatch::Kind kind;
  kind.empties_sources = false;
  kind.is_announced = observer_->has_hooks();
  MoveBatch::Result result;
  status = batch_.Run(snapshot, plan.moves, kind, &result);
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

size_t Compactor::BatchEnd(const Plan& plan, size_t begin, size_t most_moves) {
  size_t end = begin;
  while (end < plan.moves.size() && end - begin < most_moves) {
    const uint32_t from = plan.moves[end].from;
    size_t next = end;
    while (next < plan.moves.size() && plan.moves[next].from == from) ++next;
    if (end > begin && next - begin > most_moves) break;
    end = next;
  }
  return end;
}

void Compactor::NoteDuration(absl::Duration duration, uint64_t moves,
                             absl::Duration* time_per_move) {
  if (moves == 0) return;
  const absl::Duration now = duration / static_cast<int64_t>(moves);
  // Quick to learn that moves take long, slow to forget it.
  *time_per_move = *time_per_move == absl::InfiniteDuration()
                       ? now
                       : std::max(now, *time_per_move - *time_per_move / 8);
}

size_t Compactor::MostMovesOfBatch(const CompactOptions& options,
                                   absl::Duration elapsed) const {
  absl::Duration left = absl::InfiniteDuration();
  absl::Duration time_per_move = time_per_move_;
  if (options.level == CompactionLevel::kLaunchScopes) {
    left = options.max_pause - elapsed;
  } else if (options.level == CompactionLevel::kDeclaredIdle) {
    left = options.max_pause;
    time_per_move = remap_time_per_move_;
  }
  if (left == absl::InfiniteDuration()) return kMovesPerBatch;
  if (left <= absl::ZeroDuration()) return 0;
  const double moves =
      absl::FDivDuration(left, std::max(time_per_move, absl::Nanoseconds(1)));
  return static_cast<size_t>(
      std::min(moves, static_cast<double>(kMovesPerBatch)));
}

absl::Status Compactor::Run(const CompactOptions& options,
                            CompactionReport* report) {
  const absl::Time start = absl::Now();
  report->granules_before = books_->used_granules();
  report->granules_after = report->granules_before;
  if (!options.dry_run) {
    const absl::Status unmapped = UnmapSpares();
    if (!unmapped.ok()) return unmapped;
  }
  Planned* planned = &planned_;
  if (IsPlannedAhead(options)) {
    // Another pass has made the moves, or there was no arena yet.
    if (!std::exchange(is_planned_ahead_, false)) {
      report->lower_bound_granules = report->granules_before;
      return absl::OkStatus();
    }
    planned = &planned_ahead_;
    Cut(LimitsOf(options), planned);
  } else {
    TakeSnapshot(options.level == CompactionLevel::kDeclaredIdle, planned);
    MakePlanOf(options, planned);
  }
  const Plan& plan = planned->plan;
  report->pinned_granules = planned->pinned_granules;
  report->lower_bound_granules = planned->lower_bound_granules;
  report->rejected_sources = plan.rejected_sources;
  report->busy_granules = plan.pinned_granules - planned->pinned_granules;
  report->budget_exhausted = plan.limited;
  absl::Status moved;
  if (options.dry_run) {
    CountPlanned(plan, report);
  } else {
    moved = Move(*planned, options, start, report);
  }
  report->granules_after = report->granules_before - report->granules_recovered;
  // What was live for a plan made ahead may have been freed since.
  report->lower_bound_granules =
      std::min(report->lower_bound_granules, report->granules_after);
  report->duration = absl::Now() - start;
  return moved;
}

void Compactor::CountPlanned(const Plan& plan, CompactionReport* report) {
  report->granules_recovered += plan.emptied_granules;
  report->moves += plan.moves.size();
  report->bytes_copied += QuantaToBytes(plan.copied_quanta);
  report->planned_us += plan.cost_us;
}

absl::Status Compactor::Move(const Planned& planned,
                             const CompactOptions& options, absl::Time start,
                             CompactionReport* report) {
  const Plan& plan = planned.plan;
  MoveBatch::Kind kind;
  kind.is_announced = observer_->has_hooks();
  kind.is_declared = options.level == CompactionLevel::kDeclaredIdle;
  kind.max_wait = options.max_wait;
  kind.is_planned_ahead = IsPlannedAhead(options);
  for (size_t begin = 0; begin < plan.moves.size();) {
    const absl::Duration elapsed = absl::Now() - start;
    const size_t most_moves = MostMovesOfBatch(options, elapsed);
    const size_t end = BatchEnd(plan, begin, std::max<size_t>(1, most_moves));
    // Something is emptied in any case.
    const bool is_pause_over =
        options.level == CompactionLevel::kLaunchScopes && begin > 0 &&
        end - begin > most_moves;
    if (elapsed > options.max_duration || is_pause_over) {
      report->budget_exhausted = true;
      break;
    }
    MoveBatch::Result result;
    const absl::Time begun = absl::Now();
    const absl::Status status =
        batch_.Run(planned.snapshot,
                   absl::MakeConstSpan(plan.moves).subspan(begin, end - begin),
                   kind, &result);
    report->granules_recovered += result.sources;
    report->pause += result.pause;
    Count(result, report);
    if (!status.ok()) return status;
    if (kind.is_declared) {
      NoteDuration(result.remap_duration, result.moves, &remap_time_per_move_);
    } else {
      NoteDuration(absl::Now() - begun, result.moves, &time_per_move_);
    }
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace firn

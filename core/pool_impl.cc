// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pool_impl.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "firn/core/pool_spiller.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"
#include "firn/vmm/trace_range.h"

namespace firn {
// --- Allocation ---

absl::StatusOr<BlockStart> Pool::Impl::AllocateLocked(const Request& request,
                                                      Reach reach) {
  absl::StatusOr<BlockStart> start = Place(request, reach);
  // Before moving is tried, a soft limit holds.
  if (!start.ok() && absl::IsResourceExhausted(start.status()) &&
      reach != Reach::kUntilMoving && HasSoftLimit(request)) {
    SetGrowth(/*may_exceed_soft_limits=*/true);
    start = Place(request, reach);
    SetGrowth(/*may_exceed_soft_limits=*/false);
  }
  if (!start.ok()) {
    IsolateLost();
    return start;
  }
  ++stats_.allocations;
  ++stats_.live_allocations;
  stats_.live_bytes += request.bytes;
  const ArenaIndex arena = VgAt(start->vg).arena;
  if ((request.tag != Tag::kUntagged || arena != 0) && MarkBlock(*start)) {
    if (request.tag != Tag::kUntagged) {
      tags_.Add(UseKey(*start), request.tag, request.bytes);
    }
    CountDomainBlock(*arenas_[arena], request.bytes);
  }
  if (request.graph_owner.has_value()) AddGraphBlock(request, *start);
  RecordAllocation(AddressOf(*start), request.bytes, request.stream,
                   request.tag);
  NotePeaks();
  return start;
}

absl::StatusOr<BlockStart> Pool::Impl::Place(const Request& request,
                                             Reach reach) {
  absl::StatusOr<BlockStart> start = TryPlace(request, Effort::kOrdinary);
  // Asked in this order: a code is another library's to tell.
  if (start.ok() || !absl::IsResourceExhausted(start.status())) return start;
  return ClimbLadder(request, reach, start.status());
}

absl::StatusOr<BlockStart> Pool::Impl::AllocateGated(const Request& request,
                                                     absl::Status failure) {
  MutexLock turn(&turn_mutex_);
  absl::StatusOr<LaunchGate::Closure> closure = gate_.Close(options_.max_wait);
  if (!closure.ok()) {
    if (!absl::IsDeadlineExceeded(closure.status()) &&
        !absl::IsFailedPrecondition(closure.status())) {
      return closure.status();
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        failure.message(), " Not moved: ", closure.status().message()));
  }
  MutexLock pass(&pass_mutex_);
  MutexLock lock(&mutex_);
  // Opened meanwhile.
  if (graph_pools_.any_open()) return ExplainCapture(failure);
  may_wait_ = true;
  // Else all depends on the promise of those who set move_on_failure.
  launches_are_drained_ = gate_.was_used();
  absl::StatusOr<BlockStart> start =
      AllocateLocked(request, Reach::kLiveMemory);
  launches_are_drained_ = false;
  return start;
}

absl::StatusOr<BlockStart> Pool::Impl::TryPlace(const Request& request,
                                                Effort effort) {
  // Also keeps counts of granules within their 32 bits.
  const absl::string_view below = LimitBelow(request);
  if (!below.empty()) return absl::ResourceExhaustedError(below);
  const std::optional<BlockStart> again = TakeAgain(request);
  if (again.has_value()) return *again;
  Arena& arena = *arenas_[request.arena];
  if (request.arena != 0 && !(!arena.is_vacant && arena.key == request.kind)) {
    // Its owner has given it up meanwhile.
    return domains_->CheckOpen(request.kind.domain);
  }
  if (!domain_records_.empty()) SetQuota(&arena);
  if (arena.placed != nullptr) {
    return arena.placed->Allocate(request.quanta, request.alignment_quanta,
                                  request.bytes);
  }
  if (IsSmall(request)) {
    return arena.windows.Allocate(
        static_cast<uint32_t>(request.quanta),
        static_cast<uint32_t>(request.alignment_quanta), request.bytes,
        caches_.MyRank(), effort);
  }
  const uint64_t quanta =
      std::max<uint64_t>(request.quanta, quanta_per_granule_);
  const std::optional<BlockStart> parked =
      arena.large.TakeParked(quanta, request.alignment_quanta, request.bytes);
  if (parked.has_value()) return *parked;
  DissolveParked(&arena);
  return arena.large.Allocate(quanta, request.alignment_quanta, request.bytes,
                              effort);
}

// --- Freed memory ---

absl::Status Pool::Impl::WaitForFreed() {
  // Reached through Backing, which is used under the lock only.
  mutex_.AssertHeld();
  if (!has_unconfirmed_frees_ || launches_are_drained_) return absl::OkStatus();
  if (!may_wait_) {
    return absl::ResourceExhaustedError(
        "freed memory would have to be waited for, inside a LaunchScope or a "
        "capture");
  }
  const absl::Status idle = WaitForDevices();
  if (idle.ok()) has_unconfirmed_frees_ = false;
  return idle;
}

absl::Status Pool::Impl::ReleaseFreed() {
  const absl::Status status = ReleasePending(!launches_are_drained_);
  // Large blocks have been parked by that.
  DissolveParked();
  if (!status.ok()) return status;
  CollectParked();
  if (unreleased_.empty() && !graph_pools_.has_retired()) {
    return absl::OkStatus();
  }
  // No token tells of these.
  const absl::Status idle =
      launches_are_drained_ ? absl::OkStatus() : WaitForDevices();
  if (!idle.ok()) return idle;
  ReleaseCollected(/*is_idle=*/true);
  return absl::OkStatus();
}

absl::Status Pool::Impl::ReleasePending(bool wait) {
  done_.clear();
  const absl::Status status =
      wait ? free_queue_.Drain(&done_) : free_queue_.Poll(&done_);
  ReleaseDone();
  return status;
}

void Pool::Impl::ReleaseDone() {
  for (const BlockStart start : done_) Release(start);
  RetireExported();
  Spiller(this).ReleaseLeft();
}

// --- Compaction and trim ---

absl::Status Pool::Impl::WaitUntilIdle() {
  CollectParked();
  if (!launches_are_drained_) {
    // Level 0: nobody launches meanwhile; what was launched is waited for.
    const absl::Status idle = WaitForDevices();
    if (!idle.ok()) return idle;
  }
  ReleaseCollected(/*is_idle=*/true);
  has_unconfirmed_frees_ = false;
  // What streams outside of scopes are still doing is no work on this memory.
  const absl::Status released = ReleasePending(!launches_are_drained_);
  DissolveParked();
  return released;
}

void Pool::Impl::CountPass(const absl::Status& status,
                           const CompactionReport& report) {
  Record(HistoryKind::kPassEnd, /*address=*/0, report.bytes_copied);
  ++stats_.compaction_passes;
  if (!status.ok()) ++stats_.failed_passes;
  stats_.granules_moved += report.moves;
  stats_.granules_recovered += report.granules_recovered;
  stats_.bytes_copied += report.bytes_copied;
  stats_.vetoed_sources += report.vetoed_sources;
}

absl::Status Pool::Impl::CompactLocked(const CompactOptions& options,
                                       const Request* wanted,
                                       CompactionReport* report) {
  if (options.dry_run) {
    ReleaseParked(/*is_idle=*/false);
    return RunCompactors(options, wanted, report);
  }
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  absl::Status ready;
  if (options.level == CompactionLevel::kDeclaredIdle) {
    // Frees without a token would have to be waited for each time.
    ready = streams_.NoteMany();
    if (ready.ok()) ready = ReleasePending(false);
    DissolveParked();
  } else {
    ready = WaitUntilIdle();
  }
  if (!ready.ok()) return ready;
  Record(HistoryKind::kPassBegin, /*address=*/0, /*bytes=*/0);
  const absl::Status status = RunCompactors(options, wanted, report);
  CountPass(status, *report);
  return status;
}

absl::StatusOr<CompactionReport> Pool::Impl::Compact(
    const CompactOptions& options) {
  if (gate_.ThisThreadIsInside()) {
    return absl::FailedPreconditionError(
        "Compact: the calling thread is inside a LaunchScope of this pool");
  }
  if (hooks_->ThisThreadIsInside()) {
    return absl::FailedPreconditionError(
        "Compact: the calling thread is inside a move hook of this pool");
  }
  if (!options.dry_run) {
    MutexLock lock(&mutex_);
    const absl::Status closed = RefuseOpenGraphPools();
    if (!closed.ok()) return closed;
  }
  const bool in_scopes = options.level == CompactionLevel::kLaunchScopes;
  const bool is_declared = options.level == CompactionLevel::kDeclaredIdle;
  const TraceRange range(options.dry_run ? "dry run" : "pass");
  MutexLock turn(&turn_mutex_);
  if (Compactor::IsPlannedAhead(options)) {
    const absl::Status planned = PlanAhead(options);
    if (!planned.ok()) return planned;
  }
  std::optional<LaunchGate::Closure> closure;
  if ((in_scopes || gate_.was_used()) && !options.dry_run && !is_declared) {
    if (!in_scopes) {
      // Level 0 promises that nobody launches, so the devices tell what is left
      // of all that was; but for what is on streams of other contexts, which
      // the gate knows of.
      const ScopedRelaxedCapture relaxed(driver_);
      if (!relaxed.status().ok()) return relaxed.status();
      const absl::Status idle = WaitForDevices();
      if (!idle.ok()) return idle;
      gate_.ForgetLaunches();
    }
    absl::StatusOr<LaunchGate::Closure> closed = gate_.Close(options.max_wait);
    if (!closed.ok()) return closed.status();
    closure.emplace(*std::move(closed));
  }
  const absl::Time closed_at = absl::Now();
  MutexLock pass(&pass_mutex_);
  MutexLock lock(&mutex_);
  // Opened meanwhile.
  const absl::Status no_pool =
      options.dry_run ? absl::OkStatus() : RefuseOpenGraphPools();
  if (!no_pool.ok()) return no_pool;
  may_wait_ = true;
  launches_are_drained_ = in_scopes && closure.has_value();
  CompactionReport report;
  const absl::Status status =
      CompactLocked(options, /*wanted=*/nullptr, &report);
  launches_are_drained_ = false;
  if (!status.ok()) {
    IsolateLost();
    return status;
  }
  if (in_scopes && closure.has_value()) report.pause = absl::Now() - closed_at;
  return report;
}

absl::StatusOr<uint64_t> Pool::Impl::Trim(uint64_t keep_bytes) {
  const TraceRange range("trim");
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  std::optional<ScopedRelaxedCapture> relaxed;  // in a capture
  absl::Status status = EnterCall(nullptr, is_inside, &relaxed);
  if (!status.ok()) return status;
  const uint64_t retired_before = retired_granules_;
  done_.clear();
  status = free_queue_.PollAll(&done_);
  ReleaseDone();
  if (!status.ok()) return status;
  ReleaseParked(/*is_idle=*/false);
  if (may_wait_ && has_parked_blocks()) {
    const absl::Status freed = ReleaseFreed();
    if (!freed.ok()) return freed;
  }
  status = Spiller(this).ReleaseUnused();
  if (!status.ok()) return status;
  const uint64_t keep_granules = std::min<uint64_t>(
      keep_bytes / granule_bytes_, store_.most_budget_granules());
  const absl::StatusOr<uint32_t> released =
      TrimTo(static_cast<uint32_t>(keep_granules));
  if (!released.ok()) {
    IsolateLost();
    return released.status();
  }
  return GranulesToBytes(*released + retired_granules_ - retired_before);
}

void Pool::Impl::NotePeaks() {
  stats_.peak_live_bytes = std::max(stats_.peak_live_bytes, LiveBytes());
  stats_.peak_used_bytes =
      std::max(stats_.peak_used_bytes, GranulesToBytes(UsedGranules()));
  stats_.peak_held_bytes =
      std::max(stats_.peak_held_bytes, GranulesToBytes(store_.held_granules()));
  stats_.peak_mapped_vgs =
      std::max<uint64_t>(stats_.peak_mapped_vgs, mappings_.mapped_vgs());
}

}  // namespace firn

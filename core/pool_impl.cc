// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pool_impl.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

// A pass forced by a failing allocation recovers at least so many granules if
// it can: the next failure is then some way off.
constexpr uint64_t kLeastGranulesPerForcedPass = 8;
}  // namespace

// --- Allocation ---

absl::StatusOr<void*> Pool::Impl::Allocate(uint64_t bytes,
                                           const AllocateOptions& options) {
  if (bytes == 0) {
    return absl::InvalidArgumentError("bytes: 0; ask for at least 1");
  }
  const uint64_t alignment = options.alignment_bytes;
  constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 ||
      alignment > kMaxAlignment) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment_bytes: ", alignment,
                     "; must be a power of two up to ", kMaxAlignment));
  }
  Request request;
  request.bytes = bytes;
  request.quanta = BytesToQuanta(bytes);
  request.alignment_quanta = std::max<uint64_t>(1, alignment / kQuantumBytes);

  const bool is_inside = gate_.ThisThreadIsInside();
  absl::Status failure;
  {
    MutexLock lock(&mutex_);
    may_wait_ = !is_inside;
    failure = free_queue_.NoteStream(options.stream, gate_.was_used());
    if (failure.ok() && !free_queue_.empty()) failure = ReleasePending(false);
    Reach reach = is_inside ? Reach::kNoWaiting : Reach::kFreeMemory;
    if (!is_inside && options_.move_on_failure && MayMovingHelp(request)) {
      reach = Reach::kUntilMoving;
    }
    if (failure.ok()) {
      const absl::StatusOr<BlockStart> start = AllocateLocked(request, reach);
      if (start.ok()) return AddressOf(*start);
      failure = start.status();
    }
    if (reach != Reach::kUntilMoving || !absl::IsResourceExhausted(failure)) {
      ++stats_.failed_allocations;
      return failure;
    }
  }
  const absl::StatusOr<BlockStart> start = AllocateGated(request, failure);
  MutexLock lock(&mutex_);
  if (!start.ok()) {
    ++stats_.failed_allocations;
    return start.status();
  }
  return AddressOf(*start);
}

absl::StatusOr<BlockStart> Pool::Impl::AllocateLocked(const Request& request,
                                                      Reach reach) {
  absl::StatusOr<BlockStart> start = TryPlace(request, Effort::kOrdinary);
  if (absl::IsResourceExhausted(start.status())) {
    start = ClimbLadder(request, reach, start.status());
  }
  if (!start.ok()) {
    backing_.IsolateLost();
    return start;
  }
  ++stats_.allocations;
  ++stats_.live_allocations;
  stats_.live_bytes += request.bytes;
  NotePeaks();
  return start;
}

absl::StatusOr<BlockStart> Pool::Impl::AllocateGated(const Request& request,
                                                     absl::Status failure) {
  absl::StatusOr<LaunchGate::Closure> closure = gate_.Close(options_.max_wait);
  if (!closure.ok()) {
    if (!absl::IsDeadlineExceeded(closure.status()) &&
        !absl::IsFailedPrecondition(closure.status())) {
      return closure.status();
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        failure.message(), " Not moved: ", closure.status().message()));
  }
  MutexLock lock(&mutex_);
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
  if (request.bytes > GranulesToBytes(store_.budget_granules())) {
    return absl::ResourceExhaustedError("more than the capacity");
  }
  if (IsSmall(request)) {
    return windows_.Allocate(static_cast<uint32_t>(request.quanta),
                             static_cast<uint32_t>(request.alignment_quanta),
                             request.bytes, effort);
  }
  return large_.Allocate(
      std::max<uint64_t>(request.quanta, quanta_per_granule_),
      request.alignment_quanta, request.bytes, effort);
}

absl::StatusOr<BlockStart> Pool::Impl::ClimbLadder(const Request& request,
                                                   Reach reach,
                                                   absl::Status failure) {
  if (request.bytes > GranulesToBytes(store_.budget_granules())) {
    return OutOfMemory(request, failure);
  }
  backing_.IsolateLost();
  // Each rung that changed something is followed by another attempt.
  const auto retry = [&](Effort effort) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    absl::StatusOr<BlockStart> start = TryPlace(request, effort);
    if (!start.ok()) {
      failure = start.status();
      backing_.IsolateLost();
    }
    return start;
  };
  // 1. Freed blocks whose streams are not done: wait for them.
  if (reach != Reach::kNoWaiting && !free_queue_.empty()) {
    const absl::Status status = ReleasePending(!launches_are_drained_);
    if (!status.ok()) return status;
    absl::StatusOr<BlockStart> start = retry(Effort::kOrdinary);
    if (!absl::IsResourceExhausted(start.status())) return start;
  }
  // 2. Granules there are, but no addresses or mappings: those that hold
  // nothing live have them.
  if (backing_.available_granules() >= large_.GranulesFor(request.quanta)) {
    // Where unmapping would have to wait, and may not, nothing has changed.
    const absl::StatusOr<uint32_t> spares = backing_.UnmapSpares(0);
    if (!spares.ok() && may_wait_) return spares.status();
    const absl::StatusOr<uint32_t> empty = backing_.UnmapEmpty();
    if (!empty.ok() && may_wait_) return empty.status();
    if (spares.value_or(0) + empty.value_or(0) > 0) {
      absl::StatusOr<BlockStart> start = retry(Effort::kOrdinary);
      if (!absl::IsResourceExhausted(start.status())) return start;
    }
  }
  if (reach == Reach::kUntilMoving) return failure;
  // 3. Move live memory together, where that is allowed.
  if (reach == Reach::kLiveMemory && frees_at_empty_pass_ != stats_.frees) {
    const absl::Status status = MakeRoom(request);
    if (!status.ok()) return status;
    absl::StatusOr<BlockStart> start = retry(Effort::kOrdinary);
    if (!absl::IsResourceExhausted(start.status())) return start;
  }
  // 4. Holes that are left between live blocks.
  absl::StatusOr<BlockStart> start = retry(Effort::kScattered);
  if (!absl::IsResourceExhausted(start.status())) return start;
  // 5. A hole of our own making, where no whole granule can be emptied.
  if (reach == Reach::kLiveMemory && IsSmall(request)) {
    const absl::Status status = MakeHole(request);
    if (!status.ok()) return status;
    start = retry(Effort::kScattered);
    if (!absl::IsResourceExhausted(start.status())) return start;
  }
  return OutOfMemory(request, failure);
}

absl::Status Pool::Impl::MakeRoom(const Request& request) {
  CompactOptions options;
  options.wanted_granules = std::max<uint64_t>(
      large_.GranulesFor(request.quanta) + 1, kLeastGranulesPerForcedPass);
  CompactionReport report;
  const absl::Status status = CompactLocked(options, &report);
  if (!status.ok()) return status;
  if (report.granules_recovered == 0) frees_at_empty_pass_ = stats_.frees;
  return absl::OkStatus();
}

bool Pool::Impl::HoleWasInVain(const WindowAllocator::Shape& shape) {
  return frees_at_failed_hole_ == stats_.frees &&
         shape.quanta >= failed_hole_.quanta &&
         shape.alignment_quanta >= failed_hole_.alignment_quanta;
}

bool Pool::Impl::MayMovingHelp(const Request& request) {
  if (request.bytes > GranulesToBytes(store_.budget_granules())) return false;
  return frees_at_empty_pass_ != stats_.frees ||
         (IsSmall(request) && !HoleWasInVain(ShapeOf(request)));
}

absl::Status Pool::Impl::MakeHole(const Request& request) {
  const WindowAllocator::Shape shape = ShapeOf(request);
  if (HoleWasInVain(shape)) return absl::OkStatus();
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  absl::Status status = WaitUntilIdle();
  if (!status.ok()) return status;
  CompactionReport report;
  status = compactor_->OpenHole(shape.quanta, shape.alignment_quanta, &report);
  CountPass(status, report);
  if (status.ok() && report.moves == 0) {
    frees_at_failed_hole_ = stats_.frees;
    failed_hole_ = shape;
  }
  return status;
}

// --- Free ---

void* Pool::Impl::AddressOf(BlockStart start) const {
  return reinterpret_cast<void*>(
      static_cast<uintptr_t>(address_space_->AddressOf(start.vg) +
                             QuantaToBytes(start.offset_quanta)));
}

uint64_t Pool::Impl::RequestedBytes(BlockStart start) const {
  switch (books_.vg(start.vg).role) {
    case VgRole::kWindow:
      return windows_.RequestedBytes(start);
    case VgRole::kRemainder:
    case VgRole::kInterior:
      return large_.RequestedBytes(start);
    default:
      return 0;
  }
}

absl::StatusOr<BlockStart> Pool::Impl::FindBlock(const void* ptr) const {
  const DevicePtr address = reinterpret_cast<uintptr_t>(ptr);
  const std::optional<VgIndex> vg = address_space_->VgOf(address);
  if (!vg.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ptr: 0x", absl::Hex(address), " is not an address of this pool"));
  }
  const uint64_t offset_bytes = address - address_space_->AddressOf(*vg);
  BlockStart start;
  start.vg = *vg;
  start.offset_quanta = static_cast<uint32_t>(offset_bytes / kQuantumBytes);
  if (offset_bytes % kQuantumBytes != 0 || RequestedBytes(start) == 0 ||
      free_queue_.IsPending(start)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ptr: no live block starts at 0x", absl::Hex(address),
                     ": freed before, or an address inside a block"));
  }
  return start;
}

absl::Status Pool::Impl::Free(void* ptr, StreamHandle stream) {
  if (ptr == nullptr) return absl::OkStatus();
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  may_wait_ = !is_inside;
  const absl::StatusOr<BlockStart> start = FindBlock(ptr);
  if (!start.ok()) {
    ++stats_.refused_frees;
    return start.status();
  }
  const uint64_t bytes = RequestedBytes(*start);
  absl::Status status = free_queue_.NoteStream(stream, gate_.was_used());
  // Earlier frees would have to be waited for, and may not: this one at least
  // gets a token.
  const bool with_token = absl::IsResourceExhausted(status);
  if (with_token) status = absl::OkStatus();
  // The default stream captures nothing.
  if (status.ok() && stream != nullptr) {
    status = free_queue_.RefuseCapturing(stream);
  }
  const bool is_queued = with_token || free_queue_.is_recording();
  if (status.ok() && is_queued) {
    status = free_queue_.Push(*start, bytes, stream);
  }
  if (!status.ok()) {
    ++stats_.refused_frees;
    return status;
  }
  ++stats_.frees;
  --stats_.live_allocations;
  stats_.live_bytes -= bytes;
  if (!is_queued) {
    Release(*start);
    has_unconfirmed_frees_ = true;
  }
  return absl::OkStatus();
}

void Pool::Impl::Release(BlockStart start) {
  if (books_.vg(start.vg).role == VgRole::kWindow) {
    windows_.Free(start);
  } else {
    const GranuleId shared = large_.Free(start);
    if (!shared.is_none()) windows_.UnblockAll(shared);
  }
}

absl::Status Pool::Impl::WaitForFreed() {
  // Reached through Backing, which is used under the lock only.
  mutex_.AssertHeld();
  if (!has_unconfirmed_frees_ || launches_are_drained_) return absl::OkStatus();
  if (!may_wait_) {
    return absl::ResourceExhaustedError(
        "freed memory would have to be waited for, inside a LaunchScope");
  }
  const absl::Status idle = WaitForDevices();
  if (idle.ok()) has_unconfirmed_frees_ = false;
  return idle;
}

absl::Status Pool::Impl::ReleasePending(bool wait) {
  done_.clear();
  const absl::Status status =
      wait ? free_queue_.Drain(&done_) : free_queue_.Poll(&done_);
  for (const BlockStart start : done_) Release(start);
  return status;
}

// --- Compaction and trim ---

absl::Status Pool::Impl::WaitUntilIdle() {
  if (!launches_are_drained_) {
    // Level 0: nobody launches meanwhile; what was launched is waited for.
    const absl::Status idle = WaitForDevices();
    if (!idle.ok()) return idle;
  }
  has_unconfirmed_frees_ = false;
  // What streams outside of scopes are still doing is no work on this memory.
  return ReleasePending(!launches_are_drained_);
}

void Pool::Impl::CountPass(const absl::Status& status,
                           const CompactionReport& report) {
  ++stats_.compaction_passes;
  if (!status.ok()) ++stats_.failed_passes;
  stats_.granules_moved += report.moves;
  stats_.granules_recovered += report.granules_recovered;
  stats_.bytes_copied += report.bytes_copied;
}

absl::Status Pool::Impl::CompactLocked(const CompactOptions& options,
                                       CompactionReport* report) {
  if (options.dry_run) return compactor_->Run(options, report);
  const ScopedRelaxedCapture relaxed(driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  const absl::Status idle = WaitUntilIdle();
  if (!idle.ok()) return idle;
  const absl::Status status = compactor_->Run(options, report);
  CountPass(status, *report);
  return status;
}

absl::StatusOr<CompactionReport> Pool::Impl::Compact(
    const CompactOptions& options) {
  if (gate_.ThisThreadIsInside()) {
    return absl::FailedPreconditionError(
        "Compact: the calling thread is inside a LaunchScope of this pool");
  }
  const bool in_scopes = options.level == CompactionLevel::kLaunchScopes;
  std::optional<LaunchGate::Closure> closure;
  if ((in_scopes || gate_.was_used()) && !options.dry_run) {
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
  MutexLock lock(&mutex_);
  may_wait_ = true;
  launches_are_drained_ = in_scopes && closure.has_value();
  CompactionReport report;
  const absl::Status status = CompactLocked(options, &report);
  launches_are_drained_ = false;
  if (!status.ok()) {
    backing_.IsolateLost();
    return status;
  }
  return report;
}

absl::StatusOr<uint64_t> Pool::Impl::Trim(uint64_t keep_bytes) {
  const bool is_inside = gate_.ThisThreadIsInside();
  MutexLock lock(&mutex_);
  may_wait_ = !is_inside;
  const absl::Status status = ReleasePending(false);
  if (!status.ok()) return status;
  const uint64_t keep_granules =
      std::min<uint64_t>(keep_bytes / granule_bytes_, store_.budget_granules());
  const absl::StatusOr<uint32_t> released =
      backing_.Trim(static_cast<uint32_t>(keep_granules));
  if (!released.ok()) {
    backing_.IsolateLost();
    return released.status();
  }
  return GranulesToBytes(*released);
}

void Pool::Impl::NotePeaks() {
  stats_.peak_live_bytes = std::max(stats_.peak_live_bytes, stats_.live_bytes);
  stats_.peak_used_bytes =
      std::max(stats_.peak_used_bytes, GranulesToBytes(books_.used_granules()));
  stats_.peak_held_bytes =
      std::max(stats_.peak_held_bytes, GranulesToBytes(store_.held_granules()));
  stats_.peak_mapped_vgs =
      std::max<uint64_t>(stats_.peak_mapped_vgs, mappings_.mapped_vgs());
}

}  // namespace firn

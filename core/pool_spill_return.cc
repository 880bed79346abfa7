// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The way back from host memory: MarkActive brings back the granules that a
// block was spilled to, all of them or none.
//
// Where all that lies on them is idle, nothing is waited for but the copy. Else
// (RecordUse was called meanwhile) no work may be in flight, as for an
// allocation that moves memory.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/core/block_visits.h"
#include "firn/core/granule_transfer.h"
#include "firn/core/pool_spiller.h"
#include "firn/vmm/relaxed_capture.h"
#include "firn/vmm/trace_range.h"

namespace firn {
namespace {

// How often others may change what is about to come back while hooks are
// called.
constexpr int kMostTries = 8;

// What an allocation does to find granules that are free already.
constexpr Rung kCheapRungs[] = {Rung::kParkedBlocks, Rung::kPendingFrees,
                                Rung::kOtherArenas};

}  // namespace

std::vector<GranuleId> Pool::Impl::Spiller::HostGranulesOf(
    BlockStart start) const {
  impl_->mutex_.AssertHeld();
  std::vector<GranuleId> granules;
  const VgRange range = impl_->RangeOf(start);
  for (uint32_t i = 0; i < range.count; ++i) {
    const GranuleId granule = impl_->VgAt(range.first + i).granule;
    if (RecordOf(granule).is_host) granules.push_back(granule);
  }
  std::sort(granules.begin(), granules.end());
  granules.erase(std::unique(granules.begin(), granules.end()), granules.end());
  return granules;
}

bool Pool::Impl::Spiller::LiesThere(BlockStart start) const {
  return MappedGranules() > 0 && !HostGranulesOf(start).empty();
}

bool Pool::Impl::Spiller::AreIdle(const std::vector<GranuleId>& granules) {
  impl_->mutex_.AssertHeld();
  for (const GranuleId granule : granules) {
    for (const VgIndex vg : LiveVgsOn(granule)) {
      if (!impl_->VgKeepsTo(Declaration::kIdle, vg,
                            impl_->declared_.declarations())) {
        return false;
      }
    }
  }
  return true;
}

// --- Room on the device ---

absl::Status Pool::Impl::Spiller::TryAcquire(Arena* arena, uint32_t count,
                                             Acquisition* acquisition) {
  impl_->mutex_.AssertHeld();
  if (!impl_->domain_records_.empty()) impl_->SetQuota(arena);
  Request request;
  request.bytes = impl_->GranulesToBytes(count);
  request.quanta = uint64_t{count} * impl_->quanta_per_granule_;
  request.kind = arena->key;
  request.arena = arena->index();
  for (const Rung rung : kCheapRungs) {
    if (impl_->FreeGranulesFor(request) >= count) break;
    const absl::StatusOr<RungOutcome> outcome =
        impl_->TryRung(rung, request, Reach::kFreeMemory);
    if (!outcome.ok()) return outcome.status();
  }
  Backing& backing = arena->backing;
  if (impl_->FreeGranulesFor(request) >= count) {
    // Each needs an address for the time of the copy.
    if (impl_->address_space_->free().vg_count() < count) {
      const absl::StatusOr<bool> unmapped = impl_->UnmapUnused(request);
      if (!unmapped.ok()) return unmapped.status();
    }
    absl::Status status = backing.AcquireAtMost(count, acquisition);
    const size_t missing = count - acquisition->granules.size();
    if (status.ok() && missing > 0) {
      status = backing.UnmapEmpty(static_cast<uint32_t>(missing)).status();
      if (status.ok()) {
        status =
            backing.AcquireAtMost(static_cast<uint32_t>(missing), acquisition);
      }
    }
    if (!status.ok() || acquisition->granules.size() == count) return status;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "MarkActive: the block lies in host memory, and of ", count,
      " granules that it takes on the device only ",
      impl_->FreeGranulesFor(request) + acquisition->granules.size(),
      " are free: it stays there, as it is; free some memory and call again"));
}

absl::Status Pool::Impl::Spiller::AcquireFor(Arena* arena, uint32_t count,
                                             Acquisition* acquisition) {
  impl_->mutex_.AssertHeld();
  absl::Status status = TryAcquire(arena, count, acquisition);
  Request request;
  request.arena = arena->index();
  if (absl::IsResourceExhausted(status) && impl_->HasSoftLimit(request)) {
    impl_->store_.GiveBack(*acquisition);
    *acquisition = Acquisition();
    impl_->SetGrowth(/*may_exceed_soft_limits=*/true);
    status = TryAcquire(arena, count, acquisition);
    impl_->SetGrowth(/*may_exceed_soft_limits=*/false);
  }
  if (!status.ok()) impl_->store_.GiveBack(*acquisition);
  return status;
}

// --- The way back ---

absl::Status Pool::Impl::Spiller::Return(const std::vector<GranuleId>& hosts,
                                         const Acquisition& device) {
  impl_->mutex_.AssertHeld();
  std::vector<GranuleTransfer> transfers;
  for (size_t i = 0; i < hosts.size(); ++i) {
    GranuleTransfer transfer;
    transfer.arena = &ArenaOf(hosts[i]);
    transfer.from = hosts[i];
    transfer.to = device.granules[i];
    transfers.push_back(transfer);
  }
  uint64_t quanta = 0;
  const absl::Status status =
      TransferGranules(transfers, impl_->relocator_.get(), &quanta);
  if (!status.ok()) {
    impl_->IsolateLost();
    impl_->store_.GiveBack(device);
    return status;
  }
  impl_->stats_.granules_returned += hosts.size();
  impl_->stats_.bytes_returned += QuantaToBytes(quanta);
  impl_->NotePeaks();
  return status;
}

absl::StatusOr<bool> Pool::Impl::Spiller::BringBackLocked(const void* ptr,
                                                          bool is_drained) {
  impl_->mutex_.AssertHeld();
  impl_->may_wait_ = true;
  const absl::Status no_pool = impl_->RefuseOpenGraphPools();
  if (!no_pool.ok()) return no_pool;
  const ScopedRelaxedCapture relaxed(impl_->driver_);
  if (!relaxed.status().ok()) return relaxed.status();
  if (is_drained) {
    const absl::Status idle = impl_->WaitUntilIdle();
    if (!idle.ok()) return idle;
  }
  for (int i = 0; i < kMostTries; ++i) {
    absl::StatusOr<BlockStart> start = impl_->FindBlock(ptr);
    if (!start.ok()) return start.status();
    const std::vector<GranuleId> hosts = HostGranulesOf(*start);
    if (hosts.empty()) {
      impl_->declared_.Remove(UseKey(*start));
      return true;
    }
    if (!is_drained && !AreIdle(hosts)) return false;
    Acquisition device;
    const absl::Status acquired =
        AcquireFor(&impl_->ArenaOf(start->vg),
                   static_cast<uint32_t>(hosts.size()), &device);
    if (!acquired.ok()) return acquired;
    MoveObserver& observer = *impl_->hook_caller_;
    const bool is_announced = observer.has_hooks();
    bool is_right = true;
    bool stays = false;
    absl::Status status;
    if (is_announced) {
      std::vector<MovingSource> sources = ListSources(hosts);
      SetInPass(hosts, true);
      status = observer.Announce(&sources);
      SetInPass(hosts, false);
      NoteVetoes(sources);
      for (const MovingSource& source : sources) stays |= source.stays;
      // Others went on meanwhile.
      start = impl_->FindBlock(ptr);
      is_right = start.ok() && HostGranulesOf(*start) == hosts &&
                 std::none_of(hosts.begin(), hosts.end(),
                              [this](GranuleId host) { return HasNews(host); });
      if (is_right && !is_drained) is_right = AreIdle(hosts);
    }
    const bool moves = status.ok() && is_right && !stays;
    if (moves) {
      status = Return(hosts, device);
      if (status.ok()) impl_->declared_.Remove(UseKey(*start));
    } else {
      impl_->store_.GiveBack(device);
    }
    if (is_announced) observer.Conclude();
    if (!status.ok()) return status;
    if (moves) return true;
    if (stays) {
      return absl::FailedPreconditionError(
          "MarkActive: the block lies in host memory, and a move hook wants it "
          "to stay there");
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "MarkActive: the block lies in host memory, and what lies beside it has "
      "changed ",
      kMostTries, " times while move hooks were called"));
}

absl::Status Pool::Impl::Spiller::BringBack(const void* ptr) {
  if (impl_->gate_.ThisThreadIsInside()) {
    return absl::FailedPreconditionError(
        "MarkActive: the block lies in host memory, and bringing it back "
        "waits, which must not be done inside a LaunchScope of the calling "
        "thread");
  }
  if (impl_->hooks_->ThisThreadIsInside()) {
    return absl::FailedPreconditionError(
        "MarkActive: the block lies in host memory, and is not brought back "
        "inside a move hook");
  }
  const TraceRange range("bring back");
  MutexLock turn(&impl_->turn_mutex_);
  {
    MutexLock pass(&impl_->pass_mutex_);
    MutexLock lock(&impl_->mutex_);
    const absl::StatusOr<bool> done = BringBackLocked(ptr, false);
    if (!done.ok()) return done.status();
    if (*done) return absl::OkStatus();
  }
  absl::StatusOr<LaunchGate::Closure> closure =
      impl_->gate_.Close(impl_->options_.max_wait);
  if (!closure.ok()) return closure.status();
  MutexLock pass(&impl_->pass_mutex_);
  MutexLock lock(&impl_->mutex_);
  impl_->launches_are_drained_ = impl_->gate_.was_used();
  const absl::StatusOr<bool> done = BringBackLocked(ptr, true);
  impl_->launches_are_drained_ = false;
  return done.status();
}

}  // namespace firn

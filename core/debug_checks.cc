// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool with DebugOptions does with blocks that were freed, and how it
// finds damage.

#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "firn/core/debug_impl.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/launch_gate.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

// Freed blocks found in use by one call, before it stops to look at more.
constexpr int kMostInUse = 32;

void* StartOf(const DebugBlock& block) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(block.start));
}

}  // namespace

// --- What may be done now ---

bool Pool::DebugImpl::MayTouch(bool may_wait) {
  // A hook may wait for the thread that asks, and its allocation for the hook.
  while (may_wait && passes_ == 0 && hooks_ == 0 && moving_allocations_ > 0) {
    changed_.Wait(&mutex_);
  }
  return passes_ == 0 && moving_allocations_ == 0 && open_graph_pools_ == 0;
}

bool Pool::DebugImpl::IsCapturing(StreamHandle stream) const {
  // The default stream captures nothing.
  if (stream == nullptr) return false;
  CaptureStatus status = CaptureStatus::kNone;
  return driver_->StreamIsCapturing(stream, &status) !=
             DriverResult::kSuccess ||
         status != CaptureStatus::kNone;
}

absl::Status Pool::DebugImpl::WaitForDevice() const {
  const ScopedRelaxedCapture relaxed(driver_.get());
  if (!relaxed.status().ok()) return relaxed.status();
  return ToStatus(driver_->CtxSynchronize(), "cuCtxSynchronize",
                  driver_->loss());
}

absl::Status Pool::DebugImpl::WaitForStream(StreamHandle stream) const {
  const ScopedRelaxedCapture relaxed(driver_.get());
  if (!relaxed.status().ok()) return relaxed.status();
  return ToStatus(driver_->StreamSynchronize(stream), "cuStreamSynchronize",
                  driver_->loss());
}

// --- From freed to free ---

void Pool::DebugImpl::Settle(Reports* reports) {
  if (!MayTouch(/*may_wait=*/false)) return;
  int in_use = 0;
  for (DebugBlock* const block : books_.Freed()) {
    if (!AreUsesDone(block)) {
      if (++in_use == kMostInUse) break;
    } else if (!Quarantine(block, reports).ok()) {
      return;
    }
  }
  ShrinkQuarantine(options_.quarantine_bytes, /*may_touch=*/true, reports);
}

absl::Status Pool::DebugImpl::Quarantine(DebugBlock* block, Reports* reports) {
  absl::Status status = CheckGuards(*block, reports);
  if (status.ok()) {
    status = bands_->Fill(block->address, kFreedPattern, block->bytes);
  }
  if (status.ok()) status = bands_->Finish();
  if (status.ok()) books_.SetQuarantined(block);
  return status;
}

bool Pool::DebugImpl::ShrinkQuarantine(uint64_t keep_bytes, bool may_touch,
                                       Reports* reports) {
  bool is_any_free = false;
  while (books_.totals().quarantined_held_bytes > keep_bytes) {
    DebugBlock* const oldest = books_.quarantine().front();
    if (may_touch) {
      absl::Status status = CheckPart(*oldest, DamagedPart::kBody, reports);
      if (status.ok()) status = CheckGuards(*oldest, reports);
      if (!status.ok()) break;
    }
    // Everything that has used it is done, but what was done here.
    if (!beneath_->Free(StartOf(*oldest), stream_).ok()) break;
    books_.Remove(oldest);
    is_any_free = true;
  }
  // Else the caches of threads keep it for this stream.
  if (is_any_free) beneath_->ReleaseStream(stream_).IgnoreError();
  return is_any_free;
}

bool Pool::DebugImpl::EmptyQuarantine(bool may_wait, Reports* reports) {
  const bool may_touch = MayTouch(may_wait);
  bool is_any_free = false;
  for (DebugBlock* const block : books_.Freed()) {
    if (!AreUsesDone(block)) continue;
    if (may_touch && Quarantine(block, reports).ok()) continue;
    if (!beneath_->Free(StartOf(*block), stream_).ok()) continue;
    books_.Remove(block);
    is_any_free = true;
  }
  if (ShrinkQuarantine(0, may_touch, reports)) is_any_free = true;
  // So that nothing of it has to be waited for beneath.
  if (is_any_free) bands_->Finish().IgnoreError();
  return is_any_free;
}

// --- Damage ---

absl::Status Pool::DebugImpl::CheckPart(const DebugBlock& block,
                                        DamagedPart part, Reports* reports) {
  DevicePtr address = block.address;
  uint64_t bytes = block.bytes;
  uint8_t pattern = kFreedPattern;
  if (part == DamagedPart::kFrontGuard) {
    address = block.start;
    bytes = block.front_bytes();
    pattern = kGuardPattern;
  } else if (part == DamagedPart::kBackGuard) {
    address = block.end();
    bytes = block.back_bytes();
    pattern = kGuardPattern;
  }
  const absl::StatusOr<std::optional<Damage>> damage =
      bands_->Find(address, pattern, bytes);
  if (!damage.ok()) return damage.status();
  if (!damage->has_value()) return absl::OkStatus();
  reports->push_back(DescribeDamage(block, NameOf(block.tag), part, **damage));
  // What is found there next is new.
  const absl::Status filled = bands_->Fill(address, pattern, bytes);
  return filled.ok() ? bands_->Finish() : filled;
}

absl::Status Pool::DebugImpl::CheckGuards(const DebugBlock& block,
                                          Reports* reports) {
  if (!block.has_guards) return absl::OkStatus();
  const absl::Status status =
      CheckPart(block, DamagedPart::kFrontGuard, reports);
  return status.ok() ? CheckPart(block, DamagedPart::kBackGuard, reports)
                     : status;
}

absl::Status Pool::DebugImpl::CheckAll(Reports* reports) {
  for (DebugBlock* const block : books_.Freed()) {
    if (!AreUsesDone(block)) continue;
    const absl::Status status = Quarantine(block, reports);
    if (!status.ok()) return status;
  }
  absl::Status status;
  books_.ForEach([&](DebugBlock* block) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (!status.ok()) return;
    status = CheckGuards(*block, reports);
    if (status.ok() && block->state == DebugBlock::State::kQuarantined) {
      status = CheckPart(*block, DamagedPart::kBody, reports);
    }
  });
  return status;
}

absl::Status Pool::DebugImpl::CheckInvariants() {
  const bool may_wait = !launch_gate()->ThisThreadIsInside();
  bool is_in_capture = false;
  {
    MutexLock lock(&mutex_);
    is_in_capture = open_graph_pools_ > 0;
  }
  if (may_wait && !is_in_capture) {
    const absl::Status idle = WaitForDevice();
    if (!idle.ok()) return idle;
  }
  Reports reports;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = books_.CheckInvariants();
    if (status.ok() && MayTouch(may_wait)) status = CheckAll(&reports);
  }
  Deliver(reports);
  if (!reports.empty()) {
    return absl::InternalError(absl::StrJoin(reports, "\n"));
  }
  return status.ok() ? beneath_->CheckInvariants() : status;
}

void Pool::DebugImpl::Deliver(const Reports& reports) const {
  for (const std::string& report : reports) {
    if (options_.report) {
      options_.report(report);
    } else {
      std::fprintf(stderr, "%s\n", report.c_str());
    }
  }
}

}  // namespace firn

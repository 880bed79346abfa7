// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/launch_gate.h"

#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/thread_ordinal.h"
#include "firn/vmm/trace_range.h"

namespace firn {
namespace {

// The scope that this thread opened last, of any gate, of those still open. A
// pointer alone: where firn is part of a library that is loaded at run time,
// there is little room for such variables.
thread_local LaunchGate::Scope* innermost_scope = nullptr;

}  // namespace

// Why no closer misses a scope. A scope counts itself, then looks whether the
// gate is open; a closer declares it shut, then looks at the counts. All four
// are sequentially consistent, so at least one of the two sees the other: the
// scope steps back, or the closer waits for it. A scope that ends takes itself
// off the count, then looks whether the gate is open; again, either it sees
// that a closer may be waiting and wakes it, or the closer finds it gone. The
// closer looks, and falls asleep, under the lock, and is woken under it, so
// that no wake-up comes in between.
//
// What a scope leaves behind (PendingLaunches) and all that its thread did
// before is visible to the closer that reads the count it has left; and what
// the closer did is visible to a scope that finds the gate open again.

LaunchGate::LaunchGate(std::vector<Driver*> devices, StreamTracker* tracker,
                       LaunchGateOptions options)
    : slots_(std::make_unique<Slot[]>(PendingLaunches::kSlots)),
      options_(std::move(options)),
      launches_(std::move(devices), tracker) {}

LaunchGate::~LaunchGate() = default;

LaunchGate::Scope::Scope(LaunchGate* gate,
                         absl::Span<const StreamHandle> streams)
    : gate_(gate),
      slot_(ThisThreadOrdinal() % PendingLaunches::kSlots),
      holds_gate_(!gate->ThisThreadIsInside()),
      streams_(streams.begin(), streams.end()) {
  if (holds_gate_) gate->Enter(slot_);
  outer_ = innermost_scope;
  innermost_scope = this;
}

LaunchGate::Scope::~Scope() {
  Scope** link = &innermost_scope;
  while (*link != this) link = &(*link)->outer_;
  *link = outer_;

  gate_->launches_.Add(slot_, streams_, gate_->is_armed());
  if (!holds_gate_) return;
  // It may have been opened first and end before another one.
  for (Scope* other = innermost_scope; other != nullptr;
       other = other->outer_) {
    if (other->gate_ == gate_) {
      other->holds_gate_ = true;
      return;
    }
  }
  gate_->Leave(slot_);
}

LaunchGate::Closure::~Closure() {
  if (gate_ != nullptr) gate_->Open();
}

bool LaunchGate::ThisThreadIsInsideAny() { return innermost_scope != nullptr; }

bool LaunchGate::HasOpenScope() const {
  for (const Scope* scope = innermost_scope; scope != nullptr;
       scope = scope->outer_) {
    if (scope->gate_ == this) return true;
  }
  return false;
}

void LaunchGate::Enter(size_t slot) {
  if (!was_used_.load(std::memory_order_relaxed)) {
    was_used_.store(true, std::memory_order_relaxed);
  }
  slots_[slot].open_scopes.fetch_add(1, std::memory_order_seq_cst);
  if (is_open_.load(std::memory_order_seq_cst)) return;
  EnterClosed(slot);
}

ABSL_ATTRIBUTE_NOINLINE void LaunchGate::EnterClosed(size_t slot) {
  MutexLock lock(&mutex_);
  // Opened since: the count stands.
  if (is_open_.load(std::memory_order_relaxed)) return;
  slots_[slot].open_scopes.fetch_sub(1, std::memory_order_seq_cst);
  closers_.SignalAll();
  ++stats_.blocked_scopes;
  ++waiting_;
  const uint64_t openings = openings_;
  while (openings_ == openings) opened_.Wait(&mutex_);
  // No closer shuts the gate while anybody is admitted and not counted.
  slots_[slot].open_scopes.fetch_add(1, std::memory_order_seq_cst);
  if (--admitted_ == 0) closers_.SignalAll();
}

void LaunchGate::Leave(size_t slot) {
  slots_[slot].open_scopes.fetch_sub(1, std::memory_order_seq_cst);
  if (is_open_.load(std::memory_order_seq_cst)) return;
  WakeCloser();
}

ABSL_ATTRIBUTE_NOINLINE void LaunchGate::WakeCloser() {
  MutexLock lock(&mutex_);
  closers_.SignalAll();
}

uint32_t LaunchGate::CountOpenScopes() const {
  uint32_t count = 0;
  for (size_t i = 0; i < PendingLaunches::kSlots; ++i) {
    count += slots_[i].open_scopes.load(std::memory_order_seq_cst);
  }
  return count;
}

absl::StatusOr<LaunchGate::Closure> LaunchGate::Close(absl::Duration max_wait) {
  const TraceRange range("close gate");
  const absl::Time deadline = absl::Now() + max_wait;
  absl::Status status;
  if (ThisThreadIsInside()) {
    status = absl::FailedPreconditionError(
        "the calling thread is inside a launch scope: it would wait for "
        "itself");
  } else {
    Arm();
    status = Shut(deadline);
    if (status.ok()) {
      status = Drain(deadline);
      if (!status.ok()) Open();
    }
  }
  MutexLock lock(&mutex_);
  if (status.ok()) {
    ++stats_.closings;
    return Closure(this);
  }
  if (status.code() != absl::StatusCode::kDeadlineExceeded) {
    ++stats_.refusals;
    return absl::Status(
        status.code(),
        absl::StrCat("the launch gate was not closed: ", status.message()));
  }
  ++stats_.timeouts;
  return absl::DeadlineExceededError(
      absl::StrCat("the launch gate was not closed within ",
                   absl::FormatDuration(max_wait), ": ", status.message()));
}

absl::Status LaunchGate::Shut(absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (!is_open_.load(std::memory_order_relaxed) || admitted_ != 0) {
    if (WaitToClose(deadline)) continue;
    return absl::DeadlineExceededError(
        admitted_ == 0 ? std::string("another thread had closed it")
                       : absl::StrCat(admitted_,
                                      " threads that it had kept waiting had "
                                      "yet to enter"));
  }
  is_open_.store(false, std::memory_order_seq_cst);
  uint32_t open_scopes;
  while ((open_scopes = CountOpenScopes()) != 0) {
    if (WaitToClose(deadline)) continue;
    OpenLocked();
    return absl::DeadlineExceededError(absl::StrCat(
        open_scopes, open_scopes == 1 ? " scope was" : " scopes were",
        " still open"));
  }
  return absl::OkStatus();
}

bool LaunchGate::WaitToClose(absl::Time deadline) {
  const absl::Duration left = deadline - absl::Now();
  if (left <= absl::ZeroDuration()) return false;
  (void)closers_.WaitWithTimeout(&mutex_, left);
  return true;
}

absl::Status LaunchGate::Drain(absl::Time deadline) {
  const absl::Status status = launches_.WaitForAll(deadline);
  if (!status.ok() || !options_.report_unscoped_work) return status;
  return launches_.WaitForUnscoped(deadline, options_.unscoped_grace,
                                   options_.report);
}

void LaunchGate::Open() {
  MutexLock lock(&mutex_);
  OpenLocked();
}

void LaunchGate::OpenLocked() {
  ++openings_;
  admitted_ += waiting_;
  waiting_ = 0;
  is_open_.store(true, std::memory_order_seq_cst);
  opened_.SignalAll();
  closers_.SignalAll();
}

void LaunchGate::Arm() { armed_.store(true, std::memory_order_relaxed); }

void LaunchGate::ForgetLaunches() {
  MutexLock lock(&mutex_);
  if (is_open_.load(std::memory_order_relaxed)) launches_.Forget();
}

LaunchGateStats LaunchGate::stats() const {
  LaunchGateStats stats;
  {
    MutexLock lock(&mutex_);
    stats = stats_;
  }
  stats.tokens_written = launches_.tokens_written();
  stats.device_waits = launches_.device_waits();
  stats.unscoped_reports = launches_.unscoped_reports();
  return stats;
}

}  // namespace firn

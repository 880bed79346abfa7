// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How new work is held back on the host, and how it becomes known what work
// that was launched before is still in flight. Threads launch inside scopes;
// whoever remaps closes the gate.

#ifndef FIRN_VMM_LAUNCH_GATE_H_
#define FIRN_VMM_LAUNCH_GATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/pending_launches.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {

struct LaunchGateOptions {
  // After every drain, also wait for the devices as a whole, and report work
  // that was still in flight though no scope had named its stream: a launch
  // outside every scope, or on a stream that its scope did not name. For
  // debugging: a capture that was begun outside of scopes is invalidated.
  bool report_unscoped_work = false;
  // What ends within that time after a drain is not reported: seeing that a
  // device is idle takes a moment. It is awaited all the same.
  absl::Duration unscoped_grace = absl::Milliseconds(2);
  // Gets one line for each such report; must not call the gate. Empty: stderr.
  std::function<void(absl::string_view line)> report;
};

struct LaunchGateStats {
  uint64_t closings = 0;
  // Not closed: what was awaited took longer than max_wait; a capture was open;
  // a stream could not be tracked.
  uint64_t timeouts = 0;
  uint64_t refusals = 0;
  uint64_t blocked_scopes = 0;  // had to wait for a closed gate
  uint64_t tokens_written = 0;  // at the ends of scopes
  uint64_t device_waits = 0;    // drains that waited for whole devices
  uint64_t unscoped_reports = 0;
};

// The protocol. A thread enters a scope, launches, and leaves: all that it
// launched is on the streams that the scope names, or else on any stream of the
// primary contexts of the tracker's devices if it names none. Close() lets no
// scope in any more, waits until all have left, then until all work launched in
// scopes since the last drain is done. Until it is opened again, no work of
// anybody who keeps to the protocol is in flight, and none begins.
//
// What a scope costs. Until the gate is armed (by Arm, or by the first Close)
// a scope's end only notes that there was one, and the first drain waits for
// the devices as a whole. From then on every end writes a token on each stream
// that the scope names, and drains poll those alone. Streams of foreign
// contexts get tokens from the beginning; a scope that names no stream makes
// the next drain wait for the devices as a whole.
//
// Captures begin and end inside a scope. If a named stream is still capturing
// when its scope ends, the gate cannot be closed until the stream has been
// named again while it is not. (Before the gate is armed nobody looks, but for
// streams of foreign contexts: waiting for the devices invalidates a capture
// that was left open.)
//
// Work on a stream of a foreign context that cannot be tracked (where values
// cannot be written) is refused in the same way: until a scope that names the
// stream ends while the stream is idle. One of which the driver does not even
// say where it is might be foreign: the gate stays open until ForgetLaunches.
//
// No thread may wait for the gate while work on the device waits for that
// thread, and no thread may wait inside a scope for one that closes the gate.
//
// Thread safety: all methods may be called from any thread. The gate's lock is
// never held while waiting for the device, and is taken before the tracker's.
class LaunchGate {
 public:
  // Owns neither `devices` (the tracker's) nor `tracker`; all must outlive it.
  LaunchGate(std::vector<Driver*> devices, StreamTracker* tracker,
             LaunchGateOptions options);
  // No scope may be open. Waits for what a drain that gave up has left behind:
  // a wait for the devices.
  ~LaunchGate();
  LaunchGate(const LaunchGate&) = delete;
  LaunchGate& operator=(const LaunchGate&) = delete;

  // Open from construction to destruction, both by the same thread; scopes of a
  // thread may end in any order. The streams must exist until the scope ends. A
  // scope inside another one of the same thread and gate enters at once,
  // whatever the gate's state. Entering waits while the gate is closed or
  // closing, and holds up to one scope per thread: a thread that waited when
  // the gate opened gets in before it closes again.
  class Scope {
   public:
    Scope(LaunchGate* gate, absl::Span<const StreamHandle> streams);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class LaunchGate;
    LaunchGate* const gate_;
    const size_t slot_;
    // Of all open scopes of its thread and gate, the one that keeps the gate
    // from closing.
    bool holds_gate_;
    // The scope, of any gate, that this thread opened before.
    Scope* outer_;
    absl::InlinedVector<StreamHandle, 4> streams_;
  };

  // A closed gate; opens it when destroyed.
  class Closure {
   public:
    Closure(Closure&& other) noexcept : gate_(other.gate_) {
      other.gate_ = nullptr;
    }
    Closure& operator=(Closure&&) = delete;
    ~Closure();

   private:
    friend class LaunchGate;
    explicit Closure(LaunchGate* gate) : gate_(gate) {}
    LaunchGate* gate_;
  };

  // Closes the gate and drains, within `max_wait` in all; a second closer waits
  // for the first. After an error the gate is open and everything as it was;
  // what is still in flight is awaited by the next drain.
  // DeadlineExceeded says what was still open or in flight.
  // FailedPrecondition: the calling thread is inside a scope of this gate; a
  // named stream is capturing; work is on a stream that cannot be tracked.
  // DataLoss: the device is lost. ResourceExhausted: no thread to wait with.
  absl::StatusOr<Closure> Close(absl::Duration max_wait);

  // Makes scopes write tokens from now on, as the first Close does.
  void Arm();
  bool is_armed() const { return armed_.load(std::memory_order_relaxed); }
  // Whether scopes that begin now need not wait: nobody has closed it or is
  // about to. Out of date at once.
  bool is_open() const { return is_open_.load(std::memory_order_relaxed); }
  // Whether the calling thread is inside a scope of this gate.
  bool ThisThreadIsInside() const { return was_used() && HasOpenScope(); }
  // Whether it is inside a scope of any gate.
  static bool ThisThreadIsInsideAny();
  // Whether any scope was ever entered.
  bool was_used() const { return was_used_.load(std::memory_order_relaxed); }
  // The caller has waited for all devices by itself, and no scope was open
  // meanwhile: there is nothing left to drain, but for work on streams of
  // foreign contexts, which that wait does not cover. Does nothing while the
  // gate is closed or closing.
  void ForgetLaunches();

  LaunchGateStats stats() const;

 private:
  // Scopes open on threads of one slot. Aligned so that no two share a pair of
  // cache lines.
  struct alignas(128) Slot {
    std::atomic<uint32_t> open_scopes{0};
  };

  // Among the calling thread's scopes, of which there may be some.
  bool HasOpenScope() const;

  // The fast path of a scope, and what it takes while the gate is not open.
  void Enter(size_t slot);
  void EnterClosed(size_t slot) ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave(size_t slot);
  void WakeCloser() ABSL_LOCKS_EXCLUDED(mutex_);

  // Steps of Close: lets no scope in any more, and waits until none is open;
  // waits for the work. Shut leaves the gate open if it fails.
  absl::Status Shut(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Drain(absl::Time deadline);
  void Open() ABSL_LOCKS_EXCLUDED(mutex_);
  void OpenLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits to be woken; false if the deadline has passed.
  bool WaitToClose(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t CountOpenScopes() const;

  // Read by every scope. The first is written with the lock held.
  std::atomic<bool> is_open_{true};
  std::atomic<bool> armed_{false};
  std::atomic<bool> was_used_{false};
  const std::unique_ptr<Slot[]> slots_;
  const LaunchGateOptions options_;
  // For Drain: owned by the thread that has closed the gate.
  PendingLaunches launches_;

  mutable Mutex mutex_;
  CondVar opened_;  // threads that wait to enter
  CondVar closers_;
  // How often the gate was opened, so that who waited knows that it was.
  uint64_t openings_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those who waited when the gate was opened, and are not in yet.
  uint32_t admitted_ ABSL_GUARDED_BY(mutex_) = 0;
  LaunchGateStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn

#endif  // FIRN_VMM_LAUNCH_GATE_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The queues of streams, the threads that work them off, and the order between
// them. Handles, events and captures are the business of StreamSet.

#ifndef FIRN_VMM_CPU_WORK_QUEUES_H_
#define FIRN_VMM_CPU_WORK_QUEUES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "firn/vmm/cpu/deadlock_report.h"
#include "firn/vmm/cpu/deadlock_watch.h"
#include "firn/vmm/cpu/stream_identity.h"
#include "firn/vmm/cpu/stream_queue.h"
#include "firn/vmm/cpu/stream_work.h"
#include "firn/vmm/cpu/work_clock.h"
#include "firn/vmm/cpu/work_in_flight.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu {

struct WorkQueuesOptions {
  // Whether Kick() may run work on the calling thread.
  bool inline_when_idle = false;
  absl::Duration parked_timeout;
  // As those of StreamSetOptions.
  std::function<uint64_t()> stamp;
  std::function<void(uint64_t stream_id)> on_retired;
};

// Each piece of work learns what was complete before it in the order that its
// stream, points waited for, the context's legacy stream and the host make.
// What any thread of the host saw complete counts for all of the host.
//
// A worker is started when its stream is first given work that has to wait or
// may not be run inline, and ends once its stream is closed and its queue
// empty. What would need a worker that cannot be started is not appended.
class WorkQueues {
 public:
  explicit WorkQueues(const WorkQueuesOptions& options);
  // Finish() must have returned.
  ~WorkQueues() = default;
  WorkQueues(const WorkQueues&) = delete;
  WorkQueues& operator=(const WorkQueues&) = delete;

  // Of this object and all streams of it.
  Mutex* mutex() ABSL_LOCK_RETURNED(mutex_) { return &mutex_; }

  // Waits for all work; none may be appended any more.
  void Finish() ABSL_LOCKS_EXCLUDED(mutex_);

  StreamRef AddStream(const StreamIdentity& identity, uint64_t shown_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Its queued work still completes.
  void Close(Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Queues work behind all that the stream has, and takes it; or returns false,
  // and leaves it all where it is.
  [[nodiscard]] bool Append(Stream* stream, absl::Span<StreamWork> work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gets work that was appended going. Releases the mutex meanwhile: the last
  // thing to do.
  void Kick(const StreamRef& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All work queued so far, and what it comes after; may append, and returns
  // nullptr if that fails.
  PointRef RecordPoint(Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes what is appended from now on come after `point`; may append, and
  // returns false if that fails.
  [[nodiscard]] bool AppendWait(Stream* stream, const PointRef& point)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Whether all work is done on the stream, and on those that a legacy stream
  // waits for; if so, the host knows from now on.
  bool QueryStream(Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for just that.
  void WaitForStream(Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for the streams of one context.
  void WaitForContext(int context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for those of all contexts of one device.
  void WaitForDevice(int device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool QueryPoint(const PointRef& point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForPoint(const PointRef& point)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return total_completed_ == total_enqueued_;
  }
  WorkInFlight in_flight() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for all streams, but gives up in a deadlock, as DeadlockWatch tells
  // it. Returns its description, or an empty string.
  std::string Drain(absl::Duration deadlock_timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  // The operation that the calling thread runs, if it is one of a stream.
  struct Running {
    WorkQueues* queues = nullptr;
    Stream* stream = nullptr;
  };
  // While it lives, the operation that the calling thread runs is parked.
  class CallerWaits;
  static Running& ThisThreadRuns();

  void AddImplicitWaits(const Stream& stream, StreamOperation* operation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether Kick() may run it on the calling thread, now and at any time after.
  bool MayRunInline(const StreamOperation& operation) const;
  // Whether the stream has a worker from now on.
  bool HaveWorker(Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The stream has a worker, unless all it has queued may run inline.
  void AppendOperation(Stream* stream,
                       std::unique_ptr<StreamOperation> operation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All that a wait for the stream waits for, unless the host knows it already.
  // A question to a legacy stream is an action on it, and as such comes after
  // the work of the blocking streams.
  std::vector<PointRef> EndsOf(Stream* stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddEnd(Stream* stream, std::vector<PointRef>* ends)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForAll(const std::vector<PointRef>& points)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The host knows that so much is complete, and what the work saw.
  void Observe(uint64_t stream_id, uint64_t position, const WorkClock& seen)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Observe(const StreamPoint& point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Knows(host_seen_, point.stream_id, point.position)) return;
    Observe(point.stream_id, point.position, point.seen);
  }
  WorkClock AllComplete() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void RunWorker(Stream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // For the thread that claimed the stream, on its first operation.
  void AwaitTurn(Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunFirst(Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetHead(Stream* stream, OperationState state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Of a wait for `ends`.
  WorkProgress Progress(const std::vector<PointRef>& ends) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Describe(const std::vector<PointRef>& ends) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Joins the workers of closed streams that are done, and retires streams.
  void Reap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const WorkQueuesOptions options_;
  Mutex mutex_;
  // Signalled when an operation completes, and when one parks if anyone drains.
  CondVar progress_;
  uint64_t total_enqueued_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t total_completed_ ABSL_GUARDED_BY(mutex_) = 0;
  // Grows whenever an operation starts, parks, goes on or completes.
  uint64_t activity_ ABSL_GUARDED_BY(mutex_) = 0;
  int drainers_ ABSL_GUARDED_BY(mutex_) = 0;
  // By id: all that are not retired.
  absl::btree_map<uint64_t, StreamRef> streams_ ABSL_GUARDED_BY(mutex_);
  // What the host saw complete.
  WorkClock host_seen_ ABSL_GUARDED_BY(mutex_);
  // total_enqueued_ when the host last saw everything complete.
  uint64_t all_seen_at_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_WORK_QUEUES_H_

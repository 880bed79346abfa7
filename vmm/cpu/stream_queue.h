// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One stream as a queue of operations, and points in it. No threads: WorkQueues
// has those.

#ifndef FIRN_VMM_CPU_STREAM_QUEUE_H_
#define FIRN_VMM_CPU_STREAM_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/types/optional.h"
#include "firn/vmm/cpu/deadlock_report.h"
#include "firn/vmm/cpu/stream_identity.h"
#include "firn/vmm/cpu/stream_work.h"
#include "firn/vmm/cpu/work_clock.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu {

// The first `position` operations of a stream: complete when they are.
struct StreamPoint {
  uint64_t stream_id = 0;
  uint64_t position = 0;
  bool complete = false;
  // Once complete: what was so before, of other streams.
  WorkClock seen;
};
using PointRef = std::shared_ptr<StreamPoint>;

// Once queued, the functions belong to whoever works off the queue.
struct StreamOperation {
  StreamWork work;
  std::vector<PointRef> waits_for;
  // What is known to come before, but for its own stream and `waits_for`.
  WorkClock seen;
  // Its own, if somebody asked for it.
  PointRef point;
  // Operations of all streams queued before.
  uint64_t sequence = 0;
  uint64_t queued_stamp = 0;

  // Whether nothing is left to wait for.
  bool CanRunAtOnce() const;
};

// Guarded by the mutex of the queues, but for what is const.
struct Stream {
  Stream(const StreamIdentity& stream, uint64_t id_shown)
      : identity(stream), shown_id(id_shown) {}

  bool idle() const { return completed == enqueued; }

  void Append(std::unique_ptr<StreamOperation> operation);
  // The end of all that is queued.
  PointRef PointAtEnd();
  // What the first operation in the queue sees, once all it waits for is over.
  WorkClock SeenByFirst() const;
  // Takes the first operation out, which saw `first_saw`.
  void CompleteFirst(WorkClock first_saw);
  // Whether the first operation goes on only if something else does. Not if all
  // the work it waits for is over, and its thread is just about to notice.
  bool IsParked() const;
  // The first operation that has yet to note what is complete before it;
  // nullptr if there is none.
  const StreamOperation* FirstNotBegun() const;
  // Whether work queued on this stream now comes after the work of `other`, by
  // what the legacy stream means.
  bool IsImplicitlyAfter(const Stream& other) const;

  const StreamIdentity identity;
  // What StreamSet::GetId and reports say.
  const uint64_t shown_id;
  // Operations completed + 1 to enqueued: the first may be running.
  std::deque<std::unique_ptr<StreamOperation>> queue;
  uint64_t enqueued = 0;
  uint64_t completed = 0;
  // What the completed operations saw.
  WorkClock seen;
  // The point at `completed`, if somebody asked for it.
  PointRef last_point;
  OperationState head = OperationState::kNotStarted;
  // kWaitsInDriver, kWaitsForStream: the end of any of these that is not
  // complete.
  const std::vector<PointRef>* head_waits_for = nullptr;
  // Some thread works off the queue.
  bool claimed = false;
  // No more work will come.
  bool closed = false;
  // The worker is about to return.
  bool finished = false;
  // Closed, complete, and taken to be known to the host when so many operations
  // of all streams had been queued.
  absl::optional<uint64_t> observed_at;
  CondVar wake;
  std::thread worker;
};
using StreamRef = std::shared_ptr<Stream>;

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_STREAM_QUEUE_H_

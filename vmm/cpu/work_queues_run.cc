// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of WorkQueues that works the queues off.

#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "firn/vmm/cpu/work_queues.h"

namespace firn::cpu {
namespace {

// How often a condition is asked for that anything may make true.
constexpr absl::Duration kShortestPause = absl::Microseconds(20);
constexpr absl::Duration kLongestPause = absl::Milliseconds(1);

}  // namespace

WorkQueues::Running& WorkQueues::ThisThreadRuns() {
  thread_local Running running;
  return running;
}

bool WorkQueues::MayRunInline(const StreamOperation& operation) const {
  // Work without anything to run takes no thread either.
  return operation.CanRunAtOnce() && !operation.work.never_inline &&
         (options_.inline_when_idle || operation.work.run == nullptr);
}

bool WorkQueues::HaveWorker(Stream* stream) {
  if (stream->worker.joinable()) return true;
  try {
    // The worker is joined before the stream goes, so a plain pointer will do.
    stream->worker = std::thread(&WorkQueues::RunWorker, this, stream);
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void WorkQueues::Kick(const StreamRef& stream_ref) {
  if (stream_ref->claimed || stream_ref->queue.empty()) return;
  // The stream may be destroyed while its work is run here.
  const StreamRef stream = stream_ref;
  stream->claimed = true;
  while (!stream->queue.empty() && MayRunInline(*stream->queue.front())) {
    RunFirst(stream.get());
  }
  stream->claimed = false;
  if (!stream->queue.empty() || stream->closed) stream->wake.Signal();
}

void WorkQueues::RunWorker(Stream* stream) {
  mutex_.Lock();
  while (true) {
    while (stream->claimed || (stream->queue.empty() && !stream->closed)) {
      stream->wake.Wait(&mutex_);
    }
    if (stream->queue.empty()) break;
    stream->claimed = true;
    AwaitTurn(stream);
    RunFirst(stream);
    stream->claimed = false;
  }
  stream->finished = true;
  mutex_.Unlock();
}

void WorkQueues::AwaitTurn(Stream* stream) {
  StreamOperation& operation = *stream->queue.front();
  for (const PointRef& point : operation.waits_for) {
    if (point->complete) continue;
    stream->head_waits_for = &operation.waits_for;
    SetHead(stream, OperationState::kWaitsForStream);
    while (!point->complete) progress_.Wait(&mutex_);
  }
  if (operation.work.ready == nullptr) return;
  SetHead(stream, OperationState::kWaitsForCondition);
  absl::Duration pause = kShortestPause;
  while (true) {
    const uint64_t completed_before = total_completed_;
    mutex_.Unlock();
    const bool ready = operation.work.ready(operation.queued_stamp);
    mutex_.Lock();
    if (ready) break;
    if (total_completed_ != completed_before) continue;
    progress_.WaitWithTimeout(&mutex_, pause);
    pause = total_completed_ == completed_before
                ? std::min(2 * pause, kLongestPause)
                : kShortestPause;
  }
  // Whoever made it true, the host or a stream, did so after all that had
  // completed there by then, and nobody can say who it was. So all that is
  // complete counts as seen, which includes what the host knows. The operation
  // itself that made it true may still be running, and does not.
  operation.seen = Join(operation.seen, AllComplete());
}

void WorkQueues::RunFirst(Stream* stream) {
  StreamOperation& operation = *stream->queue.front();
  const WorkClock seen = stream->SeenByFirst();
  SetHead(stream, OperationState::kRuns);
  const bool tells_host = operation.work.tells_host;
  if (tells_host) Observe(stream->identity.id, stream->completed, seen);
  if (operation.work.run != nullptr || operation.work.ready != nullptr) {
    WorkOrder order;
    order.stream_id = stream->identity.id;
    order.position = stream->completed + 1;
    order.queued_stamp = operation.queued_stamp;
    order.seen = seen;
    auto run = std::move(operation.work.run);
    auto ready = std::move(operation.work.ready);
    mutex_.Unlock();
    Running& running = ThisThreadRuns();
    const Running outer = running;
    running.queues = this;
    running.stream = stream;
    if (run != nullptr) run(order);
    // What the work holds goes before it counts as complete.
    run = nullptr;
    ready = nullptr;
    running = outer;
    mutex_.Lock();
  }
  ++total_completed_;
  stream->CompleteFirst(seen);
  if (tells_host) Observe(stream->identity.id, stream->completed, seen);
  SetHead(stream, OperationState::kNotStarted);
  progress_.SignalAll();
}

void WorkQueues::SetHead(Stream* stream, OperationState state) {
  stream->head = state;
  ++activity_;
  if (drainers_ != 0 && stream->IsParked()) progress_.SignalAll();
}

WorkClock WorkQueues::AllComplete() const {
  auto complete = std::make_shared<SeenWork>();
  for (const auto& [id, stream] : streams_) {
    if (stream->completed != 0) complete->emplace(id, stream->completed);
  }
  return complete;
}

}  // namespace firn::cpu

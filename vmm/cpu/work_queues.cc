// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/work_queues.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"

namespace firn::cpu {
namespace {

// Streams that were destroyed, and whose work is over, but that the host never
// asked about: only what comes to see them yet could tell how work is ordered
// with theirs. A program that goes on without ever looking must not fill the
// memory, so the host is taken to know of the oldest ones beyond these.
constexpr size_t kMostUnobserved = 256;

absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

class WorkQueues::CallerWaits {
 public:
  // `points`, which outlive it, are what it waits for.
  CallerWaits(WorkQueues* queues, const std::vector<PointRef>* points)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queues->mutex_)
      : queues_(queues),
        stream_(ThisThreadRuns().queues == queues ? ThisThreadRuns().stream
                                                  : nullptr) {
    if (stream_ == nullptr) return;
    stream_->head_waits_for = points;
    queues->SetHead(stream_, OperationState::kWaitsInDriver);
  }
  ~CallerWaits() {
    if (stream_ == nullptr) return;
    queues_->mutex_.AssertHeld();
    queues_->SetHead(stream_, OperationState::kRuns);
  }
  CallerWaits(const CallerWaits&) = delete;
  CallerWaits& operator=(const CallerWaits&) = delete;

 private:
  WorkQueues* const queues_;
  Stream* const stream_;
};

WorkQueues::WorkQueues(const WorkQueuesOptions& options) : options_(options) {}

void WorkQueues::Finish() {
  std::vector<StreamRef> streams;
  {
    MutexLock lock(&mutex_);
    for (const auto& [id, stream] : streams_) {
      stream->closed = true;
      stream->wake.Signal();
      streams.push_back(stream);
    }
  }
  for (const StreamRef& stream : streams) {
    if (stream->worker.joinable()) stream->worker.join();
  }
}

StreamRef WorkQueues::AddStream(const StreamIdentity& identity,
                                uint64_t shown_id) {
  Reap();
  auto stream = std::make_shared<Stream>(identity, shown_id);
  streams_.emplace(identity.id, stream);
  return stream;
}

void WorkQueues::Close(Stream* stream) {
  stream->closed = true;
  stream->wake.Signal();
  Reap();
}

bool WorkQueues::Append(Stream* stream, absl::Span<StreamWork> work) {
  absl::InlinedVector<std::unique_ptr<StreamOperation>, 1> operations;
  bool all_inline = true;
  for (StreamWork& piece : work) {
    operations.push_back(std::make_unique<StreamOperation>());
    operations.back()->work = std::move(piece);
    AddImplicitWaits(*stream, operations.back().get());
    all_inline = all_inline && MayRunInline(*operations.back());
  }
  if (!all_inline && !HaveWorker(stream)) {
    // Given back, since it must not go here, with the lock held.
    for (size_t i = 0; i < work.size(); ++i) {
      work[i] = std::move(operations[i]->work);
    }
    return false;
  }
  for (auto& operation : operations) {
    AppendOperation(stream, std::move(operation));
  }
  return true;
}

void WorkQueues::AppendOperation(Stream* stream,
                                 std::unique_ptr<StreamOperation> operation) {
  operation->seen = Join(host_seen_, operation->seen);
  operation->sequence = total_enqueued_++;
  if (options_.stamp != nullptr) operation->queued_stamp = options_.stamp();
  stream->Append(std::move(operation));
}

PointRef WorkQueues::RecordPoint(Stream* stream) {
  // Recording takes a place of its own only if there is something besides the
  // stream's own work to wait for, or to know of.
  if (!stream->identity.blocking) return stream->PointAtEnd();
  auto record = std::make_unique<StreamOperation>();
  record->work.name = "event record";
  AddImplicitWaits(*stream, record.get());
  if (!record->waits_for.empty() ||
      (!KnowsAll(host_seen_, record->seen) &&
       !(stream->idle() && KnowsAll(stream->seen, record->seen)))) {
    if (!MayRunInline(*record) && !HaveWorker(stream)) return nullptr;
    AppendOperation(stream, std::move(record));
  }
  return stream->PointAtEnd();
}

bool WorkQueues::AppendWait(Stream* stream, const PointRef& point) {
  // A stream is in order with itself, and all work with what the host knows.
  if (point->stream_id == stream->identity.id ||
      (point->complete &&
       Knows(host_seen_, point->stream_id, point->position))) {
    return true;
  }
  auto wait = std::make_unique<StreamOperation>();
  wait->work.name = "event wait";
  wait->waits_for.push_back(point);
  AddImplicitWaits(*stream, wait.get());
  if (!MayRunInline(*wait) && !HaveWorker(stream)) return false;
  AppendOperation(stream, std::move(wait));
  return true;
}

bool WorkQueues::QueryStream(Stream* stream) {
  const std::vector<PointRef> ends = EndsOf(stream);
  for (const PointRef& end : ends) {
    if (!end->complete) return false;
  }
  for (const PointRef& end : ends) Observe(*end);
  return true;
}

void WorkQueues::WaitForStream(Stream* stream) { WaitForAll(EndsOf(stream)); }

void WorkQueues::WaitForContext(int context) {
  std::vector<PointRef> ends;
  for (const auto& [id, stream] : streams_) {
    if (stream->identity.context.id == context) AddEnd(stream.get(), &ends);
  }
  WaitForAll(ends);
}

void WorkQueues::WaitForDevice(int device) {
  std::vector<PointRef> ends;
  for (const auto& [id, stream] : streams_) {
    if (stream->identity.context.device == device) AddEnd(stream.get(), &ends);
  }
  WaitForAll(ends);
}

bool WorkQueues::QueryPoint(const PointRef& point) {
  if (!point->complete) return false;
  Observe(*point);
  return true;
}

void WorkQueues::WaitForPoint(const PointRef& point) { WaitForAll({point}); }

void WorkQueues::WaitForAll(const std::vector<PointRef>& points) {
  const CallerWaits waits(this, &points);
  for (const PointRef& point : points) {
    while (!point->complete) progress_.Wait(&mutex_);
    Observe(*point);
  }
}

void WorkQueues::Observe(uint64_t stream_id, uint64_t position,
                         const WorkClock& seen) {
  host_seen_ = Join(Join(host_seen_, seen), stream_id, position);
}

void WorkQueues::AddImplicitWaits(const Stream& stream,
                                  StreamOperation* operation) {
  if (!stream.identity.blocking) return;
  for (const auto& [id, other] : streams_) {
    if (!stream.IsImplicitlyAfter(*other)) continue;
    if (!other->idle()) {
      operation->waits_for.push_back(other->PointAtEnd());
    } else if (!Knows(host_seen_, id, other->completed)) {
      operation->seen =
          Join(Join(operation->seen, other->seen), id, other->completed);
    }
  }
}

std::vector<PointRef> WorkQueues::EndsOf(Stream* stream) {
  std::vector<PointRef> ends;
  AddEnd(stream, &ends);
  if (!stream->identity.legacy) return ends;
  for (const auto& [id, other] : streams_) {
    if (stream->IsImplicitlyAfter(*other)) AddEnd(other.get(), &ends);
  }
  return ends;
}

void WorkQueues::AddEnd(Stream* stream, std::vector<PointRef>* ends) {
  if (stream->idle() &&
      Knows(host_seen_, stream->identity.id, stream->completed)) {
    return;
  }
  ends->push_back(stream->PointAtEnd());
}

std::string WorkQueues::Drain(absl::Duration deadlock_timeout) {
  if (idle() && all_seen_at_ == total_enqueued_) return "";
  const uint64_t enqueued = total_enqueued_;
  std::vector<PointRef> ends;
  for (const auto& [id, stream] : streams_) AddEnd(stream.get(), &ends);
  const CallerWaits waits(this, &ends);
  ++drainers_;
  DeadlockWatch watch(options_.parked_timeout, deadlock_timeout,
                      Progress(ends));
  absl::Duration asked_at = SteadyNow();
  std::string deadlock;
  for (const PointRef& end : ends) {
    while (!end->complete && deadlock.empty()) {
      const absl::Duration now = SteadyNow();
      const absl::Duration patience =
          watch.Patience(now - asked_at, Progress(ends));
      asked_at = now;
      if (patience == absl::ZeroDuration()) {
        deadlock = Describe(ends);
      } else {
        progress_.WaitWithTimeout(&mutex_, patience);
      }
    }
    if (!deadlock.empty()) break;
    Observe(*end);
  }
  --drainers_;
  if (deadlock.empty()) all_seen_at_ = std::max(all_seen_at_, enqueued);
  return deadlock;
}

WorkProgress WorkQueues::Progress(const std::vector<PointRef>& ends) const {
  WorkProgress progress;
  for (const PointRef& end : ends) {
    // A stream with work to do is there.
    progress.completed +=
        end->complete ? end->position
                      : streams_.find(end->stream_id)->second->completed;
  }
  progress.activity = activity_;
  progress.all_parked =
      std::all_of(streams_.begin(), streams_.end(), [](const auto& entry) {
        return entry.second->idle() || entry.second->IsParked();
      });
  return progress;
}

std::string WorkQueues::Describe(const std::vector<PointRef>& ends) const {
  std::vector<StuckStream> stuck;
  for (const PointRef& end : ends) {
    if (end->complete) continue;
    const StreamRef& stream = streams_.find(end->stream_id)->second;
    const StreamWork& work = stream->queue.front()->work;
    StuckStream entry;
    entry.stream_id = stream->shown_id;
    entry.device = stream->identity.context.device;
    entry.operation = stream->completed + 1;
    entry.operations = stream->enqueued;
    entry.name = work.name;
    entry.state = stream->head;
    if (stream->head == OperationState::kWaitsForCondition) {
      entry.waits_for = work.waits_for;
    } else if (stream->head == OperationState::kWaitsForStream) {
      for (const PointRef& point : *stream->head_waits_for) {
        if (point->complete) continue;
        entry.waits_for = absl::StrCat(
            "stream ", streams_.find(point->stream_id)->second->shown_id);
        break;
      }
    }
    stuck.push_back(std::move(entry));
  }
  return DescribeDeadlock(std::move(stuck));
}

WorkInFlight WorkQueues::in_flight() const {
  WorkInFlight work;
  work.queued = total_enqueued_;
  work.over = total_enqueued_;
  if (idle()) return work;
  for (const auto& [id, stream] : streams_) {
    if (stream->queue.empty()) continue;
    work.over = std::min(work.over, stream->queue.front()->sequence);
  }
  return work;
}

void WorkQueues::Reap() {
  // What runs already has noted what comes before it, or is about to: the worst
  // that the time between can do is to hide a conflict with a stream that was
  // destroyed just then.
  uint64_t oldest_not_begun = total_enqueued_;
  size_t unobserved = 0;
  for (const auto& [id, stream] : streams_) {
    const StreamOperation* const first = stream->FirstNotBegun();
    if (first != nullptr) {
      oldest_not_begun = std::min(oldest_not_begun, first->sequence);
    }
    if (stream->closed && stream->idle() && !stream->observed_at.has_value() &&
        !Knows(host_seen_, id, stream->completed)) {
      ++unobserved;
    }
  }
  bool any_retired = false;
  for (auto it = streams_.begin(); it != streams_.end();) {
    Stream& stream = *it->second;
    ++it;
    if (!stream.closed || !stream.idle() || stream.claimed) continue;
    if (stream.worker.joinable()) {
      if (!stream.finished) continue;
      stream.worker.join();
    }
    if (!stream.observed_at.has_value()) {
      if (!Knows(host_seen_, stream.identity.id, stream.completed)) {
        if (unobserved <= kMostUnobserved) continue;
        --unobserved;
      }
      // From now on, whatever is queued comes after all of the stream's work.
      stream.observed_at = total_enqueued_;
    }
    if (oldest_not_begun < *stream.observed_at) continue;
    const uint64_t retired_id = stream.identity.id;
    it = streams_.erase(std::prev(it));
    if (options_.on_retired != nullptr) options_.on_retired(retired_id);
    any_retired = true;
  }
  if (!any_retired) return;
  // Points and operations made before may bring the streams back into clocks,
  // until next time.
  const auto is_alive = [&](uint64_t id) {
    mutex_.AssertHeld();
    return streams_.contains(id);
  };
  host_seen_ = Restrict(host_seen_, is_alive);
  for (const auto& [id, stream] : streams_) {
    stream->seen = Restrict(stream->seen, is_alive);
  }
}

}  // namespace firn::cpu

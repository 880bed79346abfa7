// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/stream_set.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

namespace firn::cpu {
namespace {

// CU_EVENT_BLOCKING_SYNC: how a host thread waits, of no concern here.
constexpr uint32_t kEventBlockingSync = 1;

// Unique in the process, so that a handle or id that is mixed up or outdated
// is never taken for another one.
uint64_t NextId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1);
}

// A value that looks like a pointer and is none: nothing may follow it.
template <typename Handle>
Handle MakeHandle(uint64_t id) {
  constexpr int kShift = 4;
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(id << kShift));
}

}  // namespace

StreamSet::StreamSet()
    : legacy_(std::make_shared<Stream>(NextId(), /*is_blocking=*/true)) {}

StreamSet::~StreamSet() {
  std::vector<std::shared_ptr<Stream>> all;
  {
    MutexLock lock(&mutex_);
    all = std::move(closed_streams_);
    for (auto& [handle, stream] : streams_) all.push_back(stream);
    all.push_back(legacy_);
    for (auto& stream : all) {
      stream->closed = true;
      stream->wake.Signal();
    }
  }
  for (auto& stream : all) {
    if (stream->worker.joinable()) stream->worker.join();
  }
}

DriverResult StreamSet::Create(StreamHandle* stream, uint32_t flags) {
  if (stream == nullptr || (flags & ~kStreamNonBlocking) != 0) {
    return DriverResult::kInvalidValue;
  }
  const uint64_t id = NextId();
  const bool blocking = (flags & kStreamNonBlocking) == 0;
  MutexLock lock(&mutex_);
  Reap();
  *stream = MakeHandle<StreamHandle>(id);
  streams_.emplace(*stream, std::make_shared<Stream>(id, blocking));
  return DriverResult::kSuccess;
}

DriverResult StreamSet::Destroy(StreamHandle stream) {
  MutexLock lock(&mutex_);
  Reap();
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return DriverResult::kInvalidHandle;
  it->second->closed = true;
  if (it->second->worker.joinable()) {
    it->second->wake.Signal();
    closed_streams_.push_back(std::move(it->second));
  }
  streams_.erase(it);
  return DriverResult::kSuccess;
}

DriverResult StreamSet::Query(StreamHandle handle) {
  MutexLock lock(&mutex_);
  const auto stream = Find(handle);
  if (stream == nullptr) return DriverResult::kInvalidHandle;
  // A question to the legacy stream is an action on it, and as such comes after
  // the work of the blocking streams.
  const bool done =
      stream->completed >= stream->enqueued &&
      (stream != legacy_ || PendingPoints(/*blocking_only=*/true).empty());
  return done ? DriverResult::kSuccess : DriverResult::kNotReady;
}

DriverResult StreamSet::Synchronize(StreamHandle handle) {
  MutexLock lock(&mutex_);
  const auto stream = Find(handle);
  if (stream == nullptr) return DriverResult::kInvalidHandle;
  std::vector<Point> points;
  if (stream == legacy_) points = PendingPoints(/*blocking_only=*/true);
  points.push_back(Point{stream, stream->enqueued});
  for (const Point& point : points) Wait(point);
  return DriverResult::kSuccess;
}

DriverResult StreamSet::GetId(StreamHandle handle, uint64_t* id) {
  if (id == nullptr) return DriverResult::kInvalidValue;
  MutexLock lock(&mutex_);
  const auto stream = Find(handle);
  if (stream == nullptr) return DriverResult::kInvalidHandle;
  *id = stream->id;
  return DriverResult::kSuccess;
}

DriverResult StreamSet::IsCapturing(StreamHandle handle,
                                    CaptureStatus* status) {
  if (status == nullptr) return DriverResult::kInvalidValue;
  MutexLock lock(&mutex_);
  if (Find(handle) == nullptr) return DriverResult::kInvalidHandle;
  *status = CaptureStatus::kNone;
  return DriverResult::kSuccess;
}

DriverResult StreamSet::WaitEvent(StreamHandle handle, EventHandle event,
                                  uint32_t flags) {
  if (flags != 0) return DriverResult::kInvalidValue;
  MutexLock lock(&mutex_);
  const auto stream = Find(handle);
  const auto it = events_.find(event);
  if (stream == nullptr || it == events_.end()) {
    return DriverResult::kInvalidHandle;
  }
  const Point& point = it->second;
  // A stream is in order with itself.
  if (IsComplete(point) || point.stream == stream) {
    return DriverResult::kSuccess;
  }
  Operation wait;
  wait.waits_for.push_back(point);
  Append(stream, std::move(wait));
  return DriverResult::kSuccess;
}

DriverResult StreamSet::EventCreate(EventHandle* event, uint32_t flags) {
  if (event == nullptr ||
      (flags & ~(kEventBlockingSync | kEventDisableTiming)) != 0) {
    return DriverResult::kInvalidValue;
  }
  MutexLock lock(&mutex_);
  *event = MakeHandle<EventHandle>(NextId());
  events_.emplace(*event, Point());
  return DriverResult::kSuccess;
}

DriverResult StreamSet::EventDestroy(EventHandle event) {
  MutexLock lock(&mutex_);
  return events_.erase(event) != 0 ? DriverResult::kSuccess
                                   : DriverResult::kInvalidHandle;
}

DriverResult StreamSet::EventRecord(EventHandle event, StreamHandle handle) {
  MutexLock lock(&mutex_);
  const auto stream = Find(handle);
  const auto it = events_.find(event);
  if (stream == nullptr || it == events_.end()) {
    return DriverResult::kInvalidHandle;
  }
  // Recording takes its place in the queue only if there is something besides
  // the stream's own work to wait for.
  if (!ImplicitWaits(*stream).empty()) Append(stream, Operation());
  it->second = Point{stream, stream->enqueued};
  return DriverResult::kSuccess;
}

DriverResult StreamSet::EventQuery(EventHandle event) {
  MutexLock lock(&mutex_);
  const auto it = events_.find(event);
  if (it == events_.end()) return DriverResult::kInvalidHandle;
  return IsComplete(it->second) ? DriverResult::kSuccess
                                : DriverResult::kNotReady;
}

DriverResult StreamSet::EventSynchronize(EventHandle event) {
  MutexLock lock(&mutex_);
  const auto it = events_.find(event);
  if (it == events_.end()) return DriverResult::kInvalidHandle;
  // A copy: the event may be recorded again or destroyed meanwhile.
  const Point point = it->second;
  Wait(point);
  return DriverResult::kSuccess;
}

bool StreamSet::Contains(StreamHandle stream) {
  if (stream == nullptr) return true;
  MutexLock lock(&mutex_);
  return streams_.contains(stream);
}

DriverResult StreamSet::Enqueue(StreamHandle handle,
                                std::function<void()> work) {
  MutexLock lock(&mutex_);
  const auto stream = Find(handle);
  if (stream == nullptr) return DriverResult::kInvalidHandle;
  Operation operation;
  operation.work = std::move(work);
  Append(stream, std::move(operation));
  return DriverResult::kSuccess;
}

bool StreamSet::IsIdle() {
  MutexLock lock(&mutex_);
  return legacy_->completed >= legacy_->enqueued &&
         PendingPoints(/*blocking_only=*/false).empty();
}

void StreamSet::SynchronizeAll() {
  MutexLock lock(&mutex_);
  std::vector<Point> points = PendingPoints(/*blocking_only=*/false);
  points.push_back(Point{legacy_, legacy_->enqueued});
  for (const Point& point : points) Wait(point);
}

std::string StreamSet::Drain(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  std::vector<Point> points = PendingPoints(/*blocking_only=*/false);
  points.push_back(Point{legacy_, legacy_->enqueued});
  for (const Point& point : points) {
    uint64_t seen = total_completed_;
    absl::Time deadline = absl::Now() + timeout;
    while (!IsComplete(point)) {
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) return Describe(points);
      progress_.WaitWithTimeout(&mutex_, left);
      if (seen == total_completed_) continue;
      seen = total_completed_;
      deadline = absl::Now() + timeout;
    }
  }
  return "";
}

std::string StreamSet::Describe(const std::vector<Point>& points) {
  std::vector<std::string> lines;
  for (const Point& point : points) {
    if (IsComplete(point)) continue;
    const Stream& stream = *point.stream;
    std::string line =
        absl::StrCat("stream ", stream.id, ", operation ", stream.completed + 1,
                     " of ", stream.enqueued, ": ");
    switch (stream.doing) {
      case Stream::Doing::kNothing:
        absl::StrAppend(&line, "not started");
        break;
      case Stream::Doing::kWaiting:
        absl::StrAppend(&line, "waits for stream ", stream.waits_for_id);
        break;
      case Stream::Doing::kRunning:
        absl::StrAppend(&line, "runs and does not end");
        break;
    }
    lines.push_back(line);
  }
  return absl::StrJoin(lines, "; ");
}

std::shared_ptr<StreamSet::Stream> StreamSet::Find(StreamHandle handle) {
  if (handle == nullptr) return legacy_;
  const auto it = streams_.find(handle);
  return it == streams_.end() ? nullptr : it->second;
}

void StreamSet::Append(const std::shared_ptr<Stream>& stream,
                       Operation operation) {
  for (Point& point : ImplicitWaits(*stream)) {
    operation.waits_for.push_back(std::move(point));
  }
  stream->queue.push_back(std::move(operation));
  ++stream->enqueued;
  if (stream->worker.joinable()) {
    stream->wake.Signal();
  } else {
    // The worker is joined before the stream goes, so a plain pointer will do.
    stream->worker = std::thread(&StreamSet::RunWorker, this, stream.get());
  }
}

std::vector<StreamSet::Point> StreamSet::ImplicitWaits(const Stream& stream) {
  if (&stream == legacy_.get()) return PendingPoints(/*blocking_only=*/true);
  std::vector<Point> points;
  if (stream.blocking && legacy_->completed < legacy_->enqueued) {
    points.push_back(Point{legacy_, legacy_->enqueued});
  }
  return points;
}

std::vector<StreamSet::Point> StreamSet::PendingPoints(bool blocking_only) {
  std::vector<Point> points;
  const auto add = [&](const std::shared_ptr<Stream>& stream) {
    if (stream->completed >= stream->enqueued) return;
    if (blocking_only && !stream->blocking) return;
    points.push_back(Point{stream, stream->enqueued});
  };
  for (const auto& [handle, stream] : streams_) add(stream);
  for (const auto& stream : closed_streams_) add(stream);
  return points;
}

void StreamSet::Wait(const Point& point) {
  while (!IsComplete(point)) progress_.Wait(&mutex_);
}

void StreamSet::RunWorker(Stream* stream) {
  mutex_.Lock();
  while (true) {
    while (stream->queue.empty() && !stream->closed) {
      stream->wake.Wait(&mutex_);
    }
    if (stream->queue.empty()) break;
    {
      const Operation operation = std::move(stream->queue.front());
      stream->queue.pop_front();
      for (const Point& point : operation.waits_for) {
        stream->doing = Stream::Doing::kWaiting;
        stream->waits_for_id = point.stream == nullptr ? 0 : point.stream->id;
        Wait(point);
      }
      stream->doing = Stream::Doing::kRunning;
      mutex_.Unlock();
      if (operation.work) operation.work();
      // What the work holds goes before the work counts as done, without lock.
    }
    mutex_.Lock();
    ++stream->completed;
    ++total_completed_;
    stream->doing = Stream::Doing::kNothing;
    progress_.SignalAll();
  }
  stream->finished = true;
  mutex_.Unlock();
}

void StreamSet::Reap() {
  const auto done = std::partition(
      closed_streams_.begin(), closed_streams_.end(),
      [](const std::shared_ptr<Stream>& stream) { return !stream->finished; });
  for (auto it = done; it != closed_streams_.end(); ++it) (*it)->worker.join();
  closed_streams_.erase(done, closed_streams_.end());
}

}  // namespace firn::cpu

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The streams and events of one device. A stream is a queue with a worker
// thread of its own; an event is a position in a stream.

#ifndef FIRN_VMM_CPU_STREAM_SET_H_
#define FIRN_VMM_CPU_STREAM_SET_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu {

// Order between streams is CUDA's: none, but what events make, and but for the
// legacy default stream (nullptr). What is queued there waits for all work
// queued before on streams that are not kStreamNonBlocking, and what is queued
// on those later waits for it.
//
// A worker is started when its stream first gets work, and ends once its stream
// is destroyed and its queue empty. Handles and ids are never used again.
//
// Thread safety: all methods may be called from any thread.
class StreamSet {
 public:
  StreamSet();
  // Waits for all work.
  ~StreamSet();
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  // The calls of vmm/driver.h of these names.
  DriverResult Create(StreamHandle* stream, uint32_t flags);
  DriverResult Destroy(StreamHandle stream);
  DriverResult Query(StreamHandle stream);
  DriverResult Synchronize(StreamHandle stream);
  DriverResult GetId(StreamHandle stream, uint64_t* id);
  DriverResult IsCapturing(StreamHandle stream, CaptureStatus* status);
  DriverResult WaitEvent(StreamHandle stream, EventHandle event,
                         uint32_t flags);
  DriverResult EventCreate(EventHandle* event, uint32_t flags);
  DriverResult EventDestroy(EventHandle event);
  DriverResult EventRecord(EventHandle event, StreamHandle stream);
  DriverResult EventQuery(EventHandle event);
  DriverResult EventSynchronize(EventHandle event);

  bool Contains(StreamHandle stream);
  // Queues `work`, which is run by the stream's worker with no lock held.
  DriverResult Enqueue(StreamHandle stream, std::function<void()> work);
  // Whether no work is queued or running.
  bool IsIdle();
  // Waits for all work queued before, on streams since destroyed as well.
  void SynchronizeAll();
  // Likewise, but gives up once no work has ended for `timeout`. Returns an
  // empty string, or which streams it was waiting for and what each is at.
  std::string Drain(absl::Duration timeout);

 private:
  struct Stream;
  // The first `position` operations of `stream`. Complete when they are.
  struct Point {
    std::shared_ptr<Stream> stream;
    uint64_t position = 0;
  };
  struct Operation {
    std::vector<Point> waits_for;
    std::function<void()> work;
  };
  // Guarded by mutex_, but for what is const.
  struct Stream {
    Stream(uint64_t stream_id, bool is_blocking)
        : id(stream_id), blocking(is_blocking) {}
    const uint64_t id;
    const bool blocking;
    std::deque<Operation> queue;
    uint64_t enqueued = 0;
    uint64_t completed = 0;
    // What the operation after the completed ones is at; none until a worker
    // takes it.
    enum class Doing { kNothing, kWaiting, kRunning } doing = Doing::kNothing;
    uint64_t waits_for_id = 0;  // of another stream, while kWaiting
    // No more work will come.
    bool closed = false;
    // The worker is about to return.
    bool finished = false;
    CondVar wake;
    std::thread worker;
  };

  // nullptr for a bad handle.
  std::shared_ptr<Stream> Find(StreamHandle handle)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Append(const std::shared_ptr<Stream>& stream, Operation operation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What an operation queued on `stream` now has to wait for because of the
  // legacy default stream.
  std::vector<Point> ImplicitWaits(const Stream& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All streams with work to do, other than the legacy one.
  std::vector<Point> PendingPoints(bool blocking_only)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool IsComplete(const Point& point) {
    return point.stream == nullptr || point.stream->completed >= point.position;
  }
  void Wait(const Point& point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Describe(const std::vector<Point>& points)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunWorker(Stream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // Joins the workers of destroyed streams that are done.
  void Reap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  // Signalled when an operation completes.
  CondVar progress_;
  // Operations completed on all streams: grows as long as there is progress.
  uint64_t total_completed_ ABSL_GUARDED_BY(mutex_) = 0;
  const std::shared_ptr<Stream> legacy_;
  absl::flat_hash_map<StreamHandle, std::shared_ptr<Stream>> streams_
      ABSL_GUARDED_BY(mutex_);
  // Destroyed, with a worker that was not joined yet.
  std::vector<std::shared_ptr<Stream>> closed_streams_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<EventHandle, Point> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_STREAM_SET_H_

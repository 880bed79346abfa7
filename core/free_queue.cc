// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/free_queue.h"

#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

// An id that no stream has.
constexpr uint64_t kUnknownStream = ~uint64_t{0};

}  // namespace

FreeQueue::~FreeQueue() {
  for (auto& [id, entries] : by_stream_) {
    for (const Entry& entry : entries) driver_->EventDestroy(entry.event);
  }
  for (const EventHandle event : spare_events_) driver_->EventDestroy(event);
}

absl::Status FreeQueue::StreamId(StreamHandle stream, uint64_t* id) {
  // The default stream is always there: it needs no id to be told apart.
  *id = 0;
  if (stream == nullptr) return absl::OkStatus();
  const DriverResult result = driver_->StreamGetId(stream, id);
  if (result == DriverResult::kNotSupported) {
    // Without ids a stream is not told from a later one with the same handle.
    *id = kUnknownStream;
    return absl::OkStatus();
  }
  if (result == DriverResult::kInvalidHandle ||
      result == DriverResult::kInvalidValue) {
    return absl::InvalidArgumentError("stream: not a stream of this driver");
  }
  ++*id;  // 0 stays the default stream's
  return ToStatus(result, "cuStreamGetId");
}

absl::Status FreeQueue::NoteStream(StreamHandle stream) {
  if (is_recording_) return absl::OkStatus();
  if (has_stream_ && stream == nullptr && first_stream_ == 0) {
    return absl::OkStatus();
  }
  uint64_t id = 0;
  const absl::Status status = StreamId(stream, &id);
  if (!status.ok()) return status;
  if (!has_stream_ && id != kUnknownStream) {
    has_stream_ = true;
    first_stream_ = id;
    return absl::OkStatus();
  }
  if (id == first_stream_ && id != kUnknownStream) return absl::OkStatus();
  const DriverResult result = driver_->CtxSynchronize();
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuCtxSynchronize");
  }
  is_recording_ = true;
  return absl::OkStatus();
}

absl::Status FreeQueue::RefuseCapturing(StreamHandle stream) {
  CaptureStatus capture = CaptureStatus::kNone;
  const DriverResult result = driver_->StreamIsCapturing(stream, &capture);
  if (result == DriverResult::kInvalidHandle) {
    return absl::InvalidArgumentError("stream: not a stream of this driver");
  }
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuStreamIsCapturing");
  }
  if (capture != CaptureStatus::kNone) {
    return absl::FailedPreconditionError(
        "stream: is capturing; free the block after the capture has ended");
  }
  return absl::OkStatus();
}

absl::Status FreeQueue::TakeEvent(EventHandle* event) {
  if (!spare_events_.empty()) {
    *event = spare_events_.back();
    spare_events_.pop_back();
    return absl::OkStatus();
  }
  return ToStatus(driver_->EventCreate(event, kEventDisableTiming),
                  "cuEventCreate");
}

absl::Status FreeQueue::Push(BlockStart start, uint64_t bytes,
                             StreamHandle stream) {
  uint64_t id = 0;
  absl::Status status = StreamId(stream, &id);
  if (!status.ok()) return status;
  Entry entry;
  entry.start = start;
  entry.bytes = bytes;
  status = TakeEvent(&entry.event);
  if (!status.ok()) return status;
  const DriverResult result = driver_->EventRecord(entry.event, stream);
  if (result != DriverResult::kSuccess) {
    spare_events_.push_back(entry.event);
    return ToStatus(result, "cuEventRecord");
  }
  by_stream_[id].push_back(entry);
  starts_.insert(KeyOf(start));
  ++pending_count_;
  pending_bytes_ += bytes;
  return absl::OkStatus();
}

void FreeQueue::Pop(std::deque<Entry>* entries, std::vector<BlockStart>* done) {
  const Entry& entry = entries->front();
  done->push_back(entry.start);
  spare_events_.push_back(entry.event);
  starts_.erase(KeyOf(entry.start));
  --pending_count_;
  pending_bytes_ -= entry.bytes;
  entries->pop_front();
}

absl::Status FreeQueue::Poll(std::vector<BlockStart>* done) {
  for (auto& [id, entries] : by_stream_) {
    while (!entries.empty()) {
      const DriverResult result = driver_->EventQuery(entries.front().event);
      if (result == DriverResult::kNotReady) break;
      if (result != DriverResult::kSuccess) {
        return ToStatus(result, "cuEventQuery");
      }
      Pop(&entries, done);
    }
  }
  return absl::OkStatus();
}

absl::Status FreeQueue::Drain(std::vector<BlockStart>* done) {
  for (auto& [id, entries] : by_stream_) {
    while (!entries.empty()) {
      const DriverResult result =
          driver_->EventSynchronize(entries.front().event);
      if (result != DriverResult::kSuccess) {
        return ToStatus(result, "cuEventSynchronize");
      }
      Pop(&entries, done);
    }
  }
  return absl::OkStatus();
}

}  // namespace firn

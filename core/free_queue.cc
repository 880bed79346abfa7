// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/free_queue.h"

#include "absl/time/time.h"
#include "firn/vmm/driver_status.h"

namespace firn {

absl::Status FreeQueue::NoteStream(StreamHandle stream, bool in_scopes) {
  if (is_recording_) return absl::OkStatus();
  if (stream == nullptr && first_is_default_ && !in_scopes) {
    return absl::OkStatus();
  }
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  if (!identity.ok()) return identity.status();
  // Without ids a stream is not told from a later one with the same handle; the
  // default stream is always there.
  const bool is_certain = (!identity->by_handle || stream == nullptr) &&
                          !identity->is_foreign && !in_scopes;
  if (!has_stream_ && is_certain) {
    has_stream_ = true;
    first_is_default_ = stream == nullptr;
    first_stream_ = identity->id;
    return absl::OkStatus();
  }
  if (is_certain && identity->id == first_stream_) return absl::OkStatus();
  const absl::Status idle = wait_for_freed_();
  if (!idle.ok()) return idle;
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

absl::Status FreeQueue::Push(BlockStart start, uint64_t bytes,
                             StreamHandle stream) {
  const absl::StatusOr<StreamToken> token = tracker_->Mark(stream);
  if (!token.ok()) return token.status();
  Entry entry;
  entry.start = start;
  entry.bytes = bytes;
  entry.token = *token;
  by_stream_[token->stream_id].push_back(entry);
  starts_.insert(KeyOf(start));
  ++pending_count_;
  pending_bytes_ += bytes;
  return absl::OkStatus();
}

void FreeQueue::Pop(std::deque<Entry>* entries, std::vector<BlockStart>* done) {
  const Entry& entry = entries->front();
  done->push_back(entry.start);
  starts_.erase(KeyOf(entry.start));
  --pending_count_;
  pending_bytes_ -= entry.bytes;
  entries->pop_front();
}

absl::Status FreeQueue::Poll(std::vector<BlockStart>* done) {
  for (auto& [id, entries] : by_stream_) {
    while (!entries.empty()) {
      const absl::StatusOr<bool> is_done =
          tracker_->IsDone(entries.front().token);
      if (!is_done.ok()) return is_done.status();
      if (!*is_done) break;
      Pop(&entries, done);
    }
  }
  return absl::OkStatus();
}

absl::Status FreeQueue::Drain(std::vector<BlockStart>* done) {
  for (auto& [id, entries] : by_stream_) {
    while (!entries.empty()) {
      const absl::Status waited = tracker_->WaitUntilDone(
          entries.front().token, absl::InfiniteFuture());
      if (!waited.ok()) return waited;
      Pop(&entries, done);
    }
  }
  return absl::OkStatus();
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/seen_streams.h"

#include "firn/vmm/driver_status.h"

namespace firn {

absl::Status SeenStreams::Note(StreamHandle stream, bool in_scopes) {
  if ((are_many() || !in_scopes) && ReadyId(stream) != 0) {
    return absl::OkStatus();
  }
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  if (!identity.ok()) return identity.status();
  if (are_many()) return absl::OkStatus();
  // Without ids a stream is not told from a later one with the same handle; the
  // default stream is always there.
  const bool is_certain = (!identity->by_handle || stream == nullptr) &&
                          !identity->is_foreign && !in_scopes;
  const uint64_t first = first_id_.load(std::memory_order_relaxed);
  if (is_certain && (first == 0 || first == identity->id)) {
    first_id_.store(identity->id, std::memory_order_relaxed);
    return absl::OkStatus();
  }
  return NoteMany();
}

absl::Status SeenStreams::NoteMany() {
  if (are_many()) return absl::OkStatus();
  const absl::Status idle = wait_for_freed_();
  if (!idle.ok()) return idle;
  are_many_.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::StatusOr<bool> SeenStreams::IsCapturing(StreamHandle stream) const {
  if (stream == nullptr) return false;
  CaptureStatus capture = CaptureStatus::kNone;
  const DriverResult result = driver_->StreamIsCapturing(stream, &capture);
  if (result == DriverResult::kInvalidHandle) return false;
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuStreamIsCapturing");
  }
  return capture != CaptureStatus::kNone;
}

absl::Status SeenStreams::RefuseCapturing(StreamHandle stream) const {
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
        "stream: is capturing; free the block after the capture has ended, or "
        "allocate it in a graph-private pool");
  }
  return absl::OkStatus();
}

}  // namespace firn

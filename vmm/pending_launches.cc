// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/pending_launches.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/status/statusor.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
PendingLaunches::PendingLaunches(std::vector<Driver*> devices,
                                 StreamTracker* tracker)
    : devices_(std::move(devices)),
      tracker_(tracker),
      slots_(std::make_unique<Slot[]>(kSlots)),
      requests_(devices_.size()) {
  for (Driver* const device : devices_) {
    waits_.push_back(std::make_unique<DeviceWait>(device));
  }
}

void PendingLaunches::Add(size_t slot_index,
                          absl::Span<const StreamHandle> streams,
                          bool with_tokens) {
  Slot* const slot = &slots_[slot_index];
  if (streams.empty()) Note(slot);
  // A token is also what takes an obstacle out of the way.
  with_tokens =
      with_tokens || obstacle_count_.load(std::memory_order_relaxed) != 0;
  for (const StreamHandle stream : streams) {
    if (!with_tokens && IsOfPrimaryContext(stream)) {
      Note(slot);
    } else {
      AddToken(slot, stream);
    }
  }
}

void PendingLaunches::Note(Slot* slot) {
  // The end of the scope publishes this, and the beginning of the next one
  // makes visible that a drain has cleared it.
  if (!slot->on_unknown_streams.load(std::memory_order_relaxed)) {
    slot->on_unknown_streams.store(true, std::memory_order_relaxed);
  }
}

bool PendingLaunches::IsOfPrimaryContext(StreamHandle stream) const {
  if (stream == nullptr || tracker_->IsKnownLocal(stream)) return true;
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  // A handle of no stream has nothing that could be tracked.
  return !identity.ok() || !identity->is_foreign;
}

void PendingLaunches::AddToken(Slot* slot, StreamHandle stream) {
  const absl::StatusOr<StreamToken> token = tracker_->Mark(stream);
  if (!token.ok()) {
    AddWithoutToken(slot, stream, token.status());
    return;
  }
  Keep(slot, *token);
  // Whatever was queued there before without a token comes before this one.
  ClearObstacle(token->stream_id);
}

ABSL_ATTRIBUTE_NOINLINE void PendingLaunches::AddWithoutToken(
    Slot* slot, StreamHandle stream, const absl::Status& refusal) {
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  if (!identity.ok()) {
    Note(slot);
    return;
  }
  Obstacle obstacle;
  obstacle.is_capturing =
      refusal.code() == absl::StatusCode::kFailedPrecondition;
  obstacle.is_foreign = identity->is_foreign;
  obstacle.reason = std::string(refusal.message());
  if (obstacle.is_capturing) {
    SetObstacle(identity->id, std::move(obstacle));
  } else if (!identity->is_foreign) {
    Note(slot);
    ClearObstacle(identity->id);
  } else if (IsIdle(stream)) {
    ClearObstacle(identity->id);
  } else {
    SetObstacle(identity->id, std::move(obstacle));
  }
}

void PendingLaunches::Keep(Slot* slot, const StreamToken& token) {
  MutexLock lock(&slot->mutex);
  ++slot->tokens_written;
  for (StreamToken& kept : slot->tokens) {
    if (kept.stream_id == token.stream_id) {
      kept.sequence = std::max(kept.sequence, token.sequence);
      return;
    }
  }
  if (slot->tokens.size() >= slot->prune_at) PruneTokens(slot);
  slot->tokens.push_back(token);
  slot->has_tokens.store(true, std::memory_order_relaxed);
}

void PendingLaunches::PruneTokens(Slot* slot) {
  std::vector<StreamToken>& tokens = slot->tokens;
  tokens.erase(std::remove_if(tokens.begin(), tokens.end(),
                              [this](const StreamToken& token) {
                                return tracker_->IsDone(token).value_or(false);
                              }),
               tokens.end());
  // Not again before as many have come as are left.
  slot->prune_at = std::max(kFirstPruneTokens, 2 * tokens.size());
}

bool PendingLaunches::IsIdle(StreamHandle stream) {
  ScopedRelaxedCapture relaxed(devices_[0]);
  CaptureStatus capture = CaptureStatus::kActive;
  return devices_[0]->StreamIsCapturing(stream, &capture) ==
             DriverResult::kSuccess &&
         capture == CaptureStatus::kNone &&
         devices_[0]->StreamQuery(stream) == DriverResult::kSuccess;
}

void PendingLaunches::SetObstacle(uint64_t stream_id, Obstacle obstacle) {
  MutexLock lock(&mutex_);
  obstacles_[stream_id] = std::move(obstacle);
  obstacle_count_.store(obstacles_.size(), std::memory_order_relaxed);
}

void PendingLaunches::ClearObstacle(uint64_t stream_id) {
  if (obstacle_count_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(&mutex_);
  obstacles_.erase(stream_id);
  obstacle_count_.store(obstacles_.size(), std::memory_order_relaxed);
}

void PendingLaunches::Forget() {
  // Tokens stay: those of the devices' own streams are found to be done.
  for (size_t i = 0; i < kSlots; ++i) {
    slots_[i].on_unknown_streams.store(false, std::memory_order_relaxed);
  }
  on_unknown_streams_ = false;
  std::fill(requests_.begin(), requests_.end(), absl::nullopt);
  MutexLock lock(&mutex_);
  for (auto it = obstacles_.begin(); it != obstacles_.end();) {
    const auto obstacle = it++;
    if (!obstacle->second.is_foreign) obstacles_.erase(obstacle);
  }
  obstacle_count_.store(obstacles_.size(), std::memory_order_relaxed);
}

uint64_t PendingLaunches::tokens_written() const {
  uint64_t total = 0;
  for (size_t i = 0; i < kSlots; ++i) {
    MutexLock lock(&slots_[i].mutex);
    total += slots_[i].tokens_written;
  }
  return total;
}

}  // namespace firn

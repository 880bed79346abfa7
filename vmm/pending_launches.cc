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
namespace {

// No stream's: what is known of one that could not even be identified.
constexpr uint64_t kUnknownStreamId = 0;

// It is no stream, or of a lost device, which the next drain will find out.
bool HasNothingToTrack(const absl::Status& refusal) {
  return absl::IsInvalidArgument(refusal) || absl::IsDataLoss(refusal);
}

}  // namespace

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
  if (!identity.ok()) return HasNothingToTrack(identity.status());
  return !identity->is_foreign;
}

void PendingLaunches::AddToken(Slot* slot, StreamHandle stream) {
  const uint64_t age = last_age_.load(std::memory_order_acquire);
  const absl::StatusOr<StreamToken> token = tracker_->Mark(stream);
  if (!token.ok()) {
    AddWithoutToken(slot, stream, token.status());
    return;
  }
  Keep(slot, *token);
  // Whatever was queued there before without a token comes before this one.
  ClearObstacle(token->stream_id, age);
}

ABSL_ATTRIBUTE_NOINLINE void PendingLaunches::AddWithoutToken(
    Slot* slot, StreamHandle stream, const absl::Status& refusal) {
  // The legacy stream, which is the own device's: waiting for that covers it.
  if (stream == nullptr) {
    Note(slot);
    return;
  }
  const uint64_t age = last_age_.load(std::memory_order_acquire);
  const absl::StatusOr<StreamIdentity> identity = tracker_->Identify(stream);
  if (!identity.ok()) {
    Note(slot);
    if (HasNothingToTrack(identity.status())) return;
    // It may be of a foreign context: who knows.
    Obstacle unknown;
    unknown.reason = std::string(identity.status().message());
    SetObstacle(kUnknownStreamId, std::move(unknown));
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
    ClearObstacle(identity->id, age);
  } else if (IsIdle(stream)) {
    ClearObstacle(identity->id, age);
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
  // Through whichever device knows it.
  for (Driver* const device : devices_) {
    CaptureStatus capture = CaptureStatus::kActive;
    if (device->StreamIsCapturing(stream, &capture) == DriverResult::kSuccess) {
      return capture == CaptureStatus::kNone &&
             device->StreamQuery(stream) == DriverResult::kSuccess;
    }
  }
  return false;
}

void PendingLaunches::SetObstacle(uint64_t stream_id, Obstacle obstacle) {
  MutexLock lock(&mutex_);
  obstacle.age = last_age_.fetch_add(1, std::memory_order_release) + 1;
  obstacles_[stream_id] = std::move(obstacle);
  obstacle_count_.store(obstacles_.size(), std::memory_order_relaxed);
}

void PendingLaunches::ClearObstacle(uint64_t stream_id, uint64_t age) {
  if (obstacle_count_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(&mutex_);
  const auto found = obstacles_.find(stream_id);
  if (found == obstacles_.end() || found->second.age > age) return;
  // Without ids, it may be another stream that has the handle now.
  const bool is_certain = tracker_->has_ids() || found->second.is_capturing ||
                          !found->second.is_foreign;
  if (is_certain) obstacles_.erase(found);
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

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/stream_tracker.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "firn/vmm/token_events.h"
#include "firn/vmm/token_values.h"

namespace firn {
namespace {

// A wait polls that often at once, then yielding, then with pauses that double.
constexpr int kSpins = 64;
constexpr int kYields = 64;
constexpr absl::Duration kFirstPause = absl::Microseconds(1);
constexpr absl::Duration kLongestPause = absl::Microseconds(100);

absl::Status IsCapturingError() {
  return absl::FailedPreconditionError(
      "the stream is capturing, or ordered with one that is");
}

// Between two polls, the `n`-th from 0 on.
void PauseBetweenPolls(int n) {
  if (n < kSpins) return;
  if (n < kSpins + kYields) {
    std::this_thread::yield();
    return;
  }
  constexpr int kDoublings = 7;
  const int doublings = std::min(n - kSpins - kYields, kDoublings);
  absl::SleepFor(std::min(kFirstPause * (1 << doublings), kLongestPause));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamTracker>> StreamTracker::Create(
    std::vector<Driver*> devices, StreamTrackerOptions options) {
  if (devices.empty()) {
    return absl::InvalidArgumentError("a tracker needs a device");
  }
  if (options.max_pending_events == 0) {
    return absl::InvalidArgumentError("max_pending_events must be positive");
  }
  absl::StatusOr<std::unique_ptr<TokenStreams>> streams =
      TokenStreams::Create(devices);
  if (!streams.ok()) return streams.status();
  std::unique_ptr<TokenWriter> writer;
  // Values of two streams in one counter would be mixed up.
  if (options.value_writes && (*streams)->has_ids()) {
    absl::StatusOr<std::unique_ptr<TokenValues>> values =
        TokenValues::Create(devices);
    if (absl::IsDataLoss(values.status())) return values.status();
    if (values.ok()) writer = *std::move(values);
  }
  const bool writes_values = writer != nullptr;
  if (!writes_values) {
    TokenEventsOptions events;
    events.max_pending_events = options.max_pending_events;
    events.record_is_stream = (*streams)->has_ids();
    writer = std::make_unique<TokenEvents>(std::move(devices), events);
  }
  return std::unique_ptr<StreamTracker>(
      new StreamTracker(*std::move(streams), std::move(writer), writes_values,
                        options.max_wait_at_end));
}

StreamTracker::StreamTracker(std::unique_ptr<TokenStreams> streams,
                             std::unique_ptr<TokenWriter> writer,
                             bool writes_values, absl::Duration max_wait_at_end)
    : writes_values_(writes_values),
      max_wait_at_end_(max_wait_at_end),
      streams_(std::move(streams)),
      records_(std::move(writer)) {}

StreamTracker::~StreamTracker() {
  if (!writes_values_) return;
  const absl::Time deadline = absl::Now() + max_wait_at_end_;
  while (true) {
    StreamToken token;
    {
      MutexLock lock(&mutex_);
      const TokenRecord* const record = records_.FirstPending();
      if (record == nullptr) return;
      token.stream_id = record->stream_id;
      token.sequence = record->written;
    }
    const absl::Status status = WaitUntilDone(token, deadline);
    if (status.ok()) continue;
    if (!absl::IsDataLoss(status)) return;
    MutexLock lock(&mutex_);
    records_.GiveUp(records_.Find(token.stream_id));
  }
}

absl::StatusOr<StreamIdentity> StreamTracker::Identify(StreamHandle stream) {
  StreamIdentity identity;
  const absl::StatusOr<uint64_t> id = streams_->IdOf(stream);
  if (!id.ok()) return id.status();
  identity.id = *id;
  // The first device's own, in any case.
  if (stream == nullptr) return identity;
  identity.by_handle = !streams_->has_ids();
  const absl::optional<StreamIdentity> known = Recall(*id);
  if (known.has_value()) return *known;
  MutexLock lock(&mutex_);
  const absl::StatusOr<TokenRecord*> record = RecordOf(*id, stream);
  if (absl::IsFailedPrecondition(record.status())) {
    identity.is_foreign = true;
    return identity;
  }
  if (!record.ok()) return record.status();
  identity.is_foreign = (*record)->place.is_foreign;
  Remember(identity);
  return identity;
}

absl::StatusOr<StreamToken> StreamTracker::Mark(StreamHandle stream) {
  const absl::StatusOr<uint64_t> id = streams_->IdOf(stream);
  if (!id.ok()) return id.status();
  MutexLock lock(&mutex_);
  const absl::StatusOr<TokenRecord*> record = RecordOf(*id, stream);
  if (!record.ok()) return record.status();
  const absl::StatusOr<bool> capturing =
      streams_->IsCapturing(stream, (*record)->place);
  if (!capturing.ok()) return capturing.status();
  if (*capturing) return IsCapturingError();
  const absl::StatusOr<uint64_t> sequence = records_.Write(*record, stream);
  if (!sequence.ok()) return sequence.status();
  StreamToken token;
  token.stream_id = *id;
  token.sequence = *sequence;
  return token;
}

absl::StatusOr<bool> StreamTracker::IsDone(const StreamToken& token) {
  MutexLock lock(&mutex_);
  TokenRecord* const record = records_.Find(token.stream_id);
  if (record == nullptr) return true;
  const size_t device = record->place.device;
  absl::StatusOr<bool> done = records_.Poll(record, token.sequence);
  // A value that does not come says nothing about why.
  if (done.ok() && !*done && writes_values_) {
    const absl::Status health = streams_->CheckHealth(device);
    if (!health.ok()) return health;
  }
  return done;
}

absl::Status StreamTracker::WaitUntilDone(const StreamToken& token,
                                          absl::Time deadline) {
  for (int polls = 0;; ++polls) {
    const absl::StatusOr<bool> done = IsDone(token);
    if (!done.ok()) return done.status();
    if (*done) return absl::OkStatus();
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError("work on a stream is not done");
    }
    PauseBetweenPolls(polls);
  }
}

bool StreamTracker::writes_values() const { return writes_values_; }

uint32_t StreamTracker::pending_streams() const {
  MutexLock lock(&mutex_);
  return static_cast<uint32_t>(records_.pending_count());
}

uint64_t StreamTracker::marks_total() const {
  MutexLock lock(&mutex_);
  return records_.written_total();
}

absl::Status StreamTracker::CheckInvariants() const {
  MutexLock lock(&mutex_);
  return records_.CheckInvariants();
}

absl::StatusOr<TokenRecord*> StreamTracker::RecordOf(uint64_t id,
                                                     StreamHandle stream) {
  TokenRecord* const known = records_.Find(id);
  // A handle may be another stream's by now.
  if (known != nullptr && streams_->has_ids()) return known;
  const absl::StatusOr<bool> capturing =
      streams_->IsCapturing(stream, StreamPlace());
  if (!capturing.ok()) return capturing.status();
  if (*capturing) return IsCapturingError();
  const absl::StatusOr<StreamPlace> place = streams_->Locate(stream);
  if (!place.ok()) return place.status();
  if (known == nullptr) return records_.Add(id, *place);
  known->place = *place;
  return known;
}

absl::optional<StreamIdentity> StreamTracker::Recall(uint64_t id) const {
  const uint64_t entry =
      remembered_[id % kRemembered].load(std::memory_order_relaxed);
  if (entry >> 1 != id) return absl::nullopt;
  StreamIdentity identity;
  identity.id = id;
  identity.is_foreign = (entry & 1) != 0;
  return identity;
}

void StreamTracker::Remember(const StreamIdentity& identity) {
  if (!streams_->has_ids()) return;
  remembered_[identity.id % kRemembered].store(
      identity.id << 1 | (identity.is_foreign ? 1 : 0),
      std::memory_order_relaxed);
}

}  // namespace firn

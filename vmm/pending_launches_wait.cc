// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/pending_launches.h"

namespace firn {
namespace {

bool IsDeadline(const absl::Status& status) {
  return status.code() == absl::StatusCode::kDeadlineExceeded;
}

std::string NameOf(Driver* device) {
  return absl::StrCat("device ", device->identity().device_ordinal);
}

}  // namespace

absl::Status PendingLaunches::WaitForAll(absl::Time deadline) {
  Collect();
  absl::Status status = CheckObstacles();
  if (!status.ok()) return status;
  // The devices are waited for by threads of their own, meanwhile.
  status = RequestDeviceWaits();
  if (status.ok()) status = WaitForTokens(deadline);
  if (status.ok()) status = WaitForDevices(deadline);
  if (!status.ok()) WithdrawDeviceWaits();
  return status;
}

void PendingLaunches::WithdrawDeviceWaits() {
  for (size_t i = 0; i < waits_.size(); ++i) {
    if (!requests_[i].has_value()) continue;
    if (!waits_[i]->Withdraw(*requests_[i])) continue;
    requests_[i].reset();
    on_unknown_streams_ = true;
  }
}

void PendingLaunches::Collect() {
  bool has_new_tokens = false;
  for (size_t i = 0; i < kSlots; ++i) {
    Slot* const slot = &slots_[i];
    if (slot->on_unknown_streams.load(std::memory_order_relaxed)) {
      slot->on_unknown_streams.store(false, std::memory_order_relaxed);
      on_unknown_streams_ = true;
    }
    if (!slot->has_tokens.load(std::memory_order_relaxed)) continue;
    slot->has_tokens.store(false, std::memory_order_relaxed);
    MutexLock lock(&slot->mutex);
    tokens_.insert(tokens_.end(), slot->tokens.begin(), slot->tokens.end());
    slot->tokens.clear();
    slot->prune_at = kFirstPruneTokens;
    has_new_tokens = true;
  }
  if (!has_new_tokens) return;
  // The latest of each stream.
  std::sort(tokens_.begin(), tokens_.end(),
            [](const StreamToken& a, const StreamToken& b) {
              if (a.stream_id != b.stream_id) return a.stream_id < b.stream_id;
              return a.sequence > b.sequence;
            });
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(),
                            [](const StreamToken& a, const StreamToken& b) {
                              return a.stream_id == b.stream_id;
                            }),
                tokens_.end());
}

absl::Status PendingLaunches::CheckObstacles() const {
  MutexLock lock(&mutex_);
  if (obstacles_.empty()) return absl::OkStatus();
  for (const auto& [stream_id, obstacle] : obstacles_) {
    if (obstacle.is_capturing) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "a scope has named a stream of another context whose work cannot be "
        "tracked (",
        obstacle.reason, "), nor was it idle when the scope ended"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(obstacles_.size(),
                   obstacles_.size() == 1 ? " stream named by scopes was"
                                          : " streams named by scopes were",
                   " still capturing at the end"));
}

absl::Status PendingLaunches::RequestDeviceWaits() {
  if (!on_unknown_streams_) return absl::OkStatus();
  for (size_t i = 0; i < waits_.size(); ++i) {
    absl::StatusOr<uint64_t> request = waits_[i]->Request();
    if (!request.ok()) return request.status();
    requests_[i] = *request;
  }
  on_unknown_streams_ = false;
  device_waits_.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status PendingLaunches::WaitForTokens(absl::Time deadline) {
  while (!tokens_.empty()) {
    const absl::Status status =
        tracker_->WaitUntilDone(tokens_.back(), deadline);
    if (status.ok()) {
      tokens_.pop_back();
      continue;
    }
    if (!IsDeadline(status)) return status;
    tokens_.erase(
        std::remove_if(tokens_.begin(), tokens_.end(),
                       [this](const StreamToken& token) {
                         return tracker_->IsDone(token).value_or(false);
                       }),
        tokens_.end());
    if (tokens_.empty()) break;
    return absl::DeadlineExceededError(absl::StrCat(
        "work was still in flight on ", tokens_.size(),
        tokens_.size() == 1 ? " stream" : " streams", " named by scopes"));
  }
  return absl::OkStatus();
}

absl::Status PendingLaunches::WaitForDevices(absl::Time deadline) {
  absl::Status first_failure;
  for (size_t i = 0; i < waits_.size(); ++i) {
    if (!requests_[i].has_value()) continue;
    const absl::Status status = waits_[i]->WaitFor(*requests_[i], deadline);
    // One that has yet to end covers the same work at the next drain.
    if (!IsDeadline(status)) requests_[i].reset();
    if (status.ok()) continue;
    if (!IsDeadline(status)) on_unknown_streams_ = true;
    if (!first_failure.ok()) continue;
    first_failure =
        !IsDeadline(status)
            ? status
            : absl::DeadlineExceededError(absl::StrCat(
                  NameOf(devices_[i]),
                  " was still busy, and is waited for as a whole: a scope has "
                  "named no streams, or ended before the gate was armed"));
  }
  return first_failure;
}

absl::Status PendingLaunches::WaitForUnscoped(
    absl::Time deadline, absl::Duration grace,
    const std::function<void(absl::string_view line)>& report) {
  std::vector<uint64_t> requests;
  for (const std::unique_ptr<DeviceWait>& wait : waits_) {
    absl::StatusOr<uint64_t> request = wait->Request();
    if (!request.ok()) return request.status();
    requests.push_back(*request);
  }
  const absl::Time grace_end = std::min(deadline, absl::Now() + grace);
  for (size_t i = 0; i < waits_.size(); ++i) {
    absl::Status status = waits_[i]->WaitFor(requests[i], grace_end);
    if (IsDeadline(status) && grace_end < deadline) {
      const std::string line = absl::StrCat(
          NameOf(devices_[i]),
          " is still busy with work that no scope has named: something was "
          "launched outside of all scopes, or on a stream that its scope did "
          "not name");
      unscoped_reports_.fetch_add(1, std::memory_order_relaxed);
      if (report) {
        report(line);
      } else {
        std::fprintf(stderr, "firn: %s\n", line.c_str());
      }
      status = waits_[i]->WaitFor(requests[i], deadline);
    }
    if (status.ok()) continue;
    for (size_t j = i; j < waits_.size(); ++j) {
      (void)waits_[j]->Withdraw(requests[j]);
    }
    if (!IsDeadline(status)) return status;
    return absl::DeadlineExceededError(
        absl::StrCat(NameOf(devices_[i]),
                     " was still busy with work that no scope has named"));
  }
  return absl::OkStatus();
}

}  // namespace firn

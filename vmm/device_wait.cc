// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/device_wait.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/relaxed_capture.h"

namespace firn {
namespace {

absl::Status Synchronise(Driver* driver) {
  const ScopedRelaxedCapture relaxed(driver);
  if (relaxed.result() != DriverResult::kSuccess) return relaxed.status();
  return ToStatus(driver->CtxSynchronize(), "cuCtxSynchronize");
}

}  // namespace

DeviceWait::DeviceWait(Driver* driver) : driver_(driver) {}

DeviceWait::~DeviceWait() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    asked_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<uint64_t> DeviceWait::Request() {
  MutexLock lock(&mutex_);
  if (!started_) {
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      return absl::ResourceExhaustedError(
          "the system starts no thread to wait for the device with");
    }
    started_ = true;
  }
  const uint64_t request = ++last_request_;
  asked_.Signal();
  // No wait begins when nobody expects it any more: a capture might be open.
  while (begun_through_ == over_through_ && begun_through_ < request) {
    begun_.Wait(&mutex_);
  }
  return request;
}

bool DeviceWait::Withdraw(uint64_t request) {
  MutexLock lock(&mutex_);
  if (begun_through_ >= request) return false;
  withdrawn_through_ = last_request_;
  return true;
}

absl::Status DeviceWait::WaitFor(uint64_t request, absl::Time deadline) {
  MutexLock lock(&mutex_);
  if (request > last_request_) {
    return absl::InvalidArgumentError(
        absl::StrCat("no wait ", request, " was asked for"));
  }
  while (over_through_ < request) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("work on the device is not done");
    }
    over_.WaitWithTimeout(&mutex_, left);
  }
  return done_through_ >= request ? absl::OkStatus() : error_;
}

void DeviceWait::Run() {
  MutexLock lock(&mutex_);
  while (true) {
    while (!ending_ && last_request_ <= over_through_) asked_.Wait(&mutex_);
    if (ending_) return;
    const uint64_t covered = last_request_;
    if (covered == withdrawn_through_) {
      begun_through_ = over_through_ = covered;
      continue;
    }
    begun_through_ = covered;
    begun_.SignalAll();
    mutex_.Unlock();
    const absl::Status status = Synchronise(driver_);
    mutex_.Lock();
    over_through_ = covered;
    if (status.ok()) {
      done_through_ = covered;
    } else {
      error_ = status;
    }
    over_.SignalAll();
  }
}

}  // namespace firn

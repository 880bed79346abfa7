// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/relaxed_capture.h"

#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

// A thread must not be left in the wrong mode because one call failed.
constexpr int kTries = 3;

}  // namespace

ScopedRelaxedCapture::~ScopedRelaxedCapture() {
  if (result_ != DriverResult::kSuccess) return;
  for (int i = 0; i < kTries; ++i) {
    if (driver_->ThreadExchangeStreamCaptureMode(&mode_) ==
        DriverResult::kSuccess) {
      return;
    }
  }
}

absl::Status ScopedRelaxedCapture::status() const {
  return ToStatus(result_,
                  DriverCallName(DriverCall::kThreadExchangeStreamCaptureMode));
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/stream_trial.h"

#include <cstdint>

#include "firn/vmm/driver_call.h"

namespace firn {
namespace {

// Of what must succeed before the trial can end.
constexpr int kTries = 3;

}  // namespace

StreamTrial::StreamTrial(Driver* driver) : driver_(driver) {
  const DriverResult result =
      driver_->StreamCreate(&stream_, kStreamNonBlocking);
  created_ = result == DriverResult::kSuccess;
  if (!created_) {
    creation_refusal_ = RefusalOf(DriverCall::kStreamCreate, result);
  }
}

std::string StreamTrial::GetId() {
  if (!created_) return creation_refusal_;
  uint64_t id = 0;
  const DriverResult result = driver_->StreamGetId(stream_, &id);
  return result == DriverResult::kSuccess
             ? ""
             : RefusalOf(DriverCall::kStreamGetId, result);
}

std::string StreamTrial::WriteValue64(MemoryTrial* memory) {
  if (!created_) return creation_refusal_;
  DriverResult result = driver_->StreamWriteValue64(
      stream_, memory->address(), /*value=*/1, kWriteValueDefault);
  if (result != DriverResult::kSuccess) {
    return RefusalOf(DriverCall::kStreamWriteValue64, result);
  }
  std::string refusal;
  for (int i = 0; i < kTries; ++i) {
    result = driver_->StreamSynchronize(stream_);
    if (result == DriverResult::kSuccess) return refusal;
    refusal = RefusalOf(DriverCall::kStreamSynchronize, result);
  }
  memory->LeaveBehind();
  return refusal;
}

std::string StreamTrial::Destroy() {
  std::string refusal;
  for (int i = 0; i < kTries && created_; ++i) {
    const DriverResult result = driver_->StreamDestroy(stream_);
    created_ = result != DriverResult::kSuccess;
    if (created_) refusal = RefusalOf(DriverCall::kStreamDestroy, result);
  }
  return refusal;
}

}  // namespace firn

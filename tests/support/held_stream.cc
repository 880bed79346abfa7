// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/held_stream.h"

#include <deque>

#include "gtest/gtest.h"

namespace firn::testing {

HeldStream::HeldStream(Driver* driver) : driver_(driver) {
  EXPECT_EQ(driver_->StreamCreate(&stream_, kStreamNonBlocking),
            DriverResult::kSuccess);
}

HeldStream::~HeldStream() {
  Release();
  // The results of a lost device say nothing new.
  if (destroyed_) {
    (void)driver_->CtxSynchronize();
  } else if (stream_ != nullptr) {
    (void)driver_->StreamSynchronize(stream_);
    (void)driver_->StreamDestroy(stream_);
  }
}

DriverResult HeldStream::Hold() {
  Gate* const gate = NewGate();
  const DriverResult result = driver_->LaunchHostFunc(stream_, &WaitAt, gate);
  if (result == DriverResult::kSuccess) {
    const MutexLock lock(&mutex_);
    closed_gates_.push_back(gate);
  }
  return result;
}

DriverResult HeldStream::Touch(DevicePtr address, uint64_t bytes,
                               uint8_t value) {
  return driver_->MemsetD8Async(address, value, bytes, stream_);
}

void HeldStream::Release() {
  const MutexLock lock(&mutex_);
  for (Gate* const gate : closed_gates_) {
    const MutexLock gate_lock(&gate->mutex);
    gate->open = true;
    gate->opened.SignalAll();
  }
  closed_gates_.clear();
}

DriverResult HeldStream::Wait() { return driver_->StreamSynchronize(stream_); }

DriverResult HeldStream::DestroyStream() {
  const DriverResult result = driver_->StreamDestroy(stream_);
  if (result == DriverResult::kSuccess) {
    stream_ = nullptr;
    destroyed_ = true;
  }
  return result;
}

void HeldStream::WaitAt(void* gate) {
  Gate* const self = static_cast<Gate*>(gate);
  const MutexLock lock(&self->mutex);
  while (!self->open) self->opened.Wait(&self->mutex);
}

HeldStream::Gate* HeldStream::NewGate() {
  static Mutex mutex;
  // A deque: its elements never move.
  static auto* const gates = new std::deque<Gate>;
  const MutexLock lock(&mutex);
  return &gates->emplace_back();
}

}  // namespace firn::testing

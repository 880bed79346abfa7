// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What checks of captures and graphs do over and over.

#ifndef FIRN_TESTS_CONTRACT_CAPTURE_SCENE_H_
#define FIRN_TESTS_CONTRACT_CAPTURE_SCENE_H_

#include "tests/contract/contract_device.h"

namespace firn::contract {

// Gives the calling thread another capture mode for a scope.
class ThreadCaptureMode {
 public:
  ThreadCaptureMode(Driver* driver, CaptureMode mode)
      : driver_(driver), mode_(mode) {
    (void)driver_->ThreadExchangeStreamCaptureMode(&mode_);
  }
  ~ThreadCaptureMode() {
    (void)driver_->ThreadExchangeStreamCaptureMode(&mode_);
  }
  ThreadCaptureMode(const ThreadCaptureMode&) = delete;
  ThreadCaptureMode& operator=(const ThreadCaptureMode&) = delete;

 private:
  Driver* const driver_;
  CaptureMode mode_;
};

// Captures what `enqueue`, a function of a stream that returns a result, puts
// on a stream, and makes it ready to launch.
template <typename Enqueue>
DriverResult MakeGraph(ContractDevice& device, GraphExecHandle* exec,
                       Enqueue enqueue) {
  const StreamHandle stream = device.NewStream();
  GraphHandle graph = nullptr;
  DriverResult result =
      device.StreamBeginCapture(stream, CaptureMode::kRelaxed);
  if (result != DriverResult::kSuccess) return result;
  const DriverResult enqueued = enqueue(stream);
  result = device.StreamEndCapture(stream, &graph);
  if (enqueued != DriverResult::kSuccess) return enqueued;
  if (result != DriverResult::kSuccess) return result;
  return device.GraphInstantiate(exec, graph, 0);
}

// The status of a stream, or kInvalidated where it cannot be told.
inline CaptureStatus StatusOf(ContractDevice& device, StreamHandle stream) {
  CaptureStatus status = CaptureStatus::kInvalidated;
  if (device.StreamIsCapturing(stream, &status) != DriverResult::kSuccess) {
    return CaptureStatus::kInvalidated;
  }
  return status;
}

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_CAPTURE_SCENE_H_

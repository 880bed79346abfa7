// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A stream, what is captured on it, and launches of the graph that comes of it.

#ifndef FIRN_TESTS_SUPPORT_STREAM_CAPTURE_H_
#define FIRN_TESTS_SUPPORT_STREAM_CAPTURE_H_

#include "firn/vmm/driver.h"
#include "gtest/gtest.h"

namespace firn::testing {

class StreamCapture {
 public:
  // Creates a stream that does not wait for the default stream. Does not own
  // `driver`.
  explicit StreamCapture(Driver* driver) : driver_(driver) {
    EXPECT_EQ(driver_->StreamCreate(&stream_, kStreamNonBlocking),
              DriverResult::kSuccess);
  }
  ~StreamCapture() {
    if (exec_ != nullptr) {
      EXPECT_EQ(driver_->GraphExecDestroy(exec_), DriverResult::kSuccess);
    }
    EXPECT_EQ(driver_->StreamDestroy(stream_), DriverResult::kSuccess);
  }
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;

  StreamHandle stream() const { return stream_; }

  DriverResult Begin(CaptureMode mode = CaptureMode::kGlobal) {
    return driver_->StreamBeginCapture(stream_, mode);
  }
  // Ends the capture, whose graph takes the place of an earlier one. Fails if
  // anything has invalidated the capture.
  DriverResult End() {
    GraphHandle graph = nullptr;
    DriverResult result = driver_->StreamEndCapture(stream_, &graph);
    if (result != DriverResult::kSuccess) return result;
    if (exec_ != nullptr) driver_->GraphExecDestroy(exec_);
    exec_ = nullptr;
    result = driver_->GraphInstantiate(&exec_, graph, 0);
    EXPECT_EQ(driver_->GraphDestroy(graph), DriverResult::kSuccess);
    return result;
  }
  // Queues the graph on any stream.
  DriverResult LaunchOn(StreamHandle stream) {
    return driver_->GraphLaunch(exec_, stream);
  }
  // Launches it on its own stream and waits for it.
  DriverResult Run() {
    const DriverResult launched = LaunchOn(stream_);
    return launched == DriverResult::kSuccess
               ? driver_->StreamSynchronize(stream_)
               : launched;
  }

 private:
  Driver* const driver_;
  StreamHandle stream_ = nullptr;
  GraphExecHandle exec_ = nullptr;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_STREAM_CAPTURE_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams to capture.

#ifndef FIRN_TESTS_VMM_CPU_CAPTURE_SCENE_H_
#define FIRN_TESTS_VMM_CPU_CAPTURE_SCENE_H_

#include <functional>
#include <thread>

#include "gtest/gtest.h"
#include "tests/vmm/cpu/stream_scene.h"

namespace firn::cpu_testing {

inline constexpr DriverResult kUnsupported =
    DriverResult::kStreamCaptureUnsupported;
inline constexpr DriverResult kInvalidated =
    DriverResult::kStreamCaptureInvalidated;

// Gives this thread a mode for a scope.
class ScopedCaptureMode {
 public:
  explicit ScopedCaptureMode(CaptureMode mode) : mode_(mode) { Exchange(); }
  ~ScopedCaptureMode() { Exchange(); }
  ScopedCaptureMode(const ScopedCaptureMode&) = delete;
  ScopedCaptureMode& operator=(const ScopedCaptureMode&) = delete;

 private:
  void Exchange() {
    EXPECT_EQ(cpu::StreamSet::ExchangeCaptureMode(&mode_).result,
              DriverResult::kSuccess);
  }
  CaptureMode mode_;
};

inline void OnAnotherThread(const std::function<void()>& body) {
  std::thread(body).join();
}

class CaptureScene : public StreamScene {
 protected:
  explicit CaptureScene(const cpu::StreamSetOptions& options = {})
      : StreamScene(options) {}

  void Begin(StreamHandle stream, CaptureMode mode = CaptureMode::kGlobal) {
    EXPECT_EQ(streams_.BeginCapture(0, stream, mode).result, kOk);
  }
  DriverResult End(StreamHandle stream, GraphHandle* graph = nullptr) {
    GraphHandle ignored = nullptr;
    return streams_.EndCapture(0, stream, graph == nullptr ? &ignored : graph)
        .result;
  }
  CaptureStatus StatusOf(StreamHandle stream) {
    CaptureStatus status = CaptureStatus::kNone;
    EXPECT_EQ(streams_.IsCapturing(0, stream, &status).result, kOk);
    return status;
  }
  bool IsValid(StreamHandle stream) {
    return StatusOf(stream) == CaptureStatus::kActive;
  }
  // Ends a capture that succeeds.
  GraphHandle Finish(StreamHandle stream) {
    GraphHandle graph = nullptr;
    EXPECT_EQ(End(stream, &graph), kOk);
    EXPECT_NE(graph, nullptr);
    return graph;
  }
  GraphExecHandle Instantiate(GraphHandle graph) {
    GraphExecHandle exec = nullptr;
    EXPECT_EQ(streams_.GraphInstantiate(&exec, graph, 0).result, kOk);
    return exec;
  }
};

}  // namespace firn::cpu_testing

#endif  // FIRN_TESTS_VMM_CPU_CAPTURE_SCENE_H_

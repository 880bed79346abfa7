// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Captures: nothing is done to a stream that is capturing, and what is done
// elsewhere breaks no capture.

#include <memory>
#include <thread>

#include "firn/vmm/stream_tracker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/stream_tracker_scene.h"

namespace firn::testing {
namespace {

class StreamTrackerCaptureTest : public StreamTrackerScene,
                                 public ::testing::WithParamInterface<bool> {
 protected:
  std::unique_ptr<StreamTracker> Track() {
    StreamTrackerOptions options;
    options.value_writes = GetParam();
    return StreamTrackerScene::Track(options);
  }

  void Begin(StreamHandle stream, CaptureMode mode = CaptureMode::kGlobal) {
    ASSERT_EQ(device()->StreamBeginCapture(stream, mode), kOk);
  }
  // Ends a capture, which must be valid, and launches what it recorded.
  void EndAndLaunch(StreamHandle stream) {
    GraphHandle graph = nullptr;
    ASSERT_EQ(device()->StreamEndCapture(stream, &graph), kOk);
    ASSERT_NE(graph, nullptr);
    GraphExecHandle exec = nullptr;
    ASSERT_EQ(device()->GraphInstantiate(&exec, graph, 0), kOk);
    EXPECT_EQ(device()->GraphLaunch(exec, stream), kOk);
    EXPECT_EQ(device()->StreamSynchronize(stream), kOk);
    EXPECT_EQ(device()->GraphExecDestroy(exec), kOk);
    EXPECT_EQ(device()->GraphDestroy(graph), kOk);
  }
};

INSTANTIATE_TEST_SUITE_P(EachKind, StreamTrackerCaptureTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Values" : "Events";
                         });

TEST_P(StreamTrackerCaptureTest, AStreamIsNotMarkedWhileItIsCapturing) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  const StreamHandle stream = MakeStream();
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity before,
                            tracker->Identify(stream));
  Begin(stream);
  EXPECT_THAT(tracker->Mark(stream),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity identity,
                            tracker->Identify(stream));
  EXPECT_EQ(identity.id, before.id);
  EXPECT_FALSE(identity.is_foreign);
  EndAndLaunch(stream);
  FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, stream)));
  EXPECT_EQ(tracker->marks_total(), 1u);
  EXPECT_EQ(device()->StreamDestroy(stream), kOk);
}

TEST_P(StreamTrackerCaptureTest, ANewStreamThatIsCapturingIsLeftAlone) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  const StreamHandle stream = MakeStream();
  Begin(stream);
  EXPECT_THAT(tracker->Mark(stream),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity during,
                            tracker->Identify(stream));
  EXPECT_TRUE(during.is_foreign);
  EndAndLaunch(stream);
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity after,
                            tracker->Identify(stream));
  EXPECT_EQ(after.id, during.id);
  EXPECT_FALSE(after.is_foreign);
  EXPECT_EQ(device()->StreamDestroy(stream), kOk);
}

TEST_P(StreamTrackerCaptureTest, ACapturingStreamWithTokensIsStillPolled) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken token = MarkOn(*tracker, held.stream());
  Begin(held.stream(), CaptureMode::kRelaxed);
  EXPECT_FALSE(IsDone(*tracker, token));
  held.Release();
  FIRN_EXPECT_OK(Wait(*tracker, token));
  EndAndLaunch(held.stream());
}

// The legacy stream is ordered with it, and touching it would break the
// capture.
TEST_P(StreamTrackerCaptureTest, TheLegacyStreamIsNotMarkedMeanwhile) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  const StreamHandle blocking = MakeStream(0, kStreamDefault);
  Begin(blocking);
  EXPECT_THAT(tracker->Mark(nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EndAndLaunch(blocking);
  FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, nullptr)));
  EXPECT_EQ(device()->StreamDestroy(blocking), kOk);
}

// In the mode that forbids most, of this thread and of another one.
TEST_P(StreamTrackerCaptureTest, OtherStreamsAreTrackedWhileACaptureIsOpen) {
  const StreamHandle captured = MakeStream();
  const StreamHandle known = MakeStream();
  const StreamHandle fresh = MakeStream();
  const std::unique_ptr<StreamTracker> tracker = Track();
  FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, known)));
  Begin(captured);
  const auto use = [&] {
    FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, known)));
    FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, fresh)));
    // A tracker comes and goes as well.
    FIRN_EXPECT_OK(Track()->Identify(fresh));
  };
  use();
  std::thread(use).join();
  CaptureStatus status = CaptureStatus::kNone;
  EXPECT_EQ(device()->StreamIsCapturing(captured, &status), kOk);
  EXPECT_EQ(status, CaptureStatus::kActive);
  EndAndLaunch(captured);
  for (const StreamHandle stream : {captured, known, fresh}) {
    EXPECT_EQ(device()->StreamDestroy(stream), kOk);
  }
}

TEST_P(StreamTrackerCaptureTest, TheThreadKeepsItsCaptureMode) {
  CaptureMode mode = CaptureMode::kThreadLocal;
  ASSERT_EQ(device()->ThreadExchangeStreamCaptureMode(&mode), kOk);
  {
    const std::unique_ptr<StreamTracker> tracker = Track();
    const StreamToken token = MarkOn(*tracker, nullptr);
    FIRN_EXPECT_OK(Wait(*tracker, token));
  }
  EXPECT_EQ(device()->ThreadExchangeStreamCaptureMode(&mode), kOk);
  EXPECT_EQ(mode, CaptureMode::kThreadLocal);
}

}  // namespace
}  // namespace firn::testing

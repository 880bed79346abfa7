// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/vmm/launch_gate_drain.h"

#include <cstdint>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/launch_gate.h"
#include "firn/vmm/relaxed_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/launch_gate_scene.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

using Scope = LaunchGate::Scope;

TEST_F(LaunchGateDrainTest, WorkOnANamedStreamIsWaitedForByItsToken) {
  gate().Arm();
  HeldStream held(device());
  LaunchHeld(&held, {held.stream()});
  EXPECT_EQ(gate().stats().tokens_written, 1u);
  EXPECT_THAT(gate().Close(kMoment),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("in flight on 1 stream named by scopes")));
  ExpectIsWaitedFor(&held);
  EXPECT_EQ(gate().stats().device_waits, 0u);
}

TEST_F(LaunchGateDrainTest, WorkOfBeforeTheGateWasArmedIsWaitedForByTheDevice) {
  HeldStream held(device());
  LaunchHeld(&held, {held.stream()});
  EXPECT_EQ(gate().stats().tokens_written, 0u);
  EXPECT_THAT(gate().Close(kMoment),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("device 0 was still busy")));
  ExpectIsWaitedFor(&held);
  // A drain that gave up has left its wait to the next one.
  EXPECT_EQ(gate().stats().device_waits, 1u);
}

TEST_F(LaunchGateDrainTest, AScopeThatEndsAfterArmingWritesATokenAllTheSame) {
  HeldStream held(device());
  {
    const StreamHandle stream = held.stream();
    const Scope scope(&gate(), {stream});
    ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
    ASSERT_EQ(
        held.Touch(scene_->AddressOf(0), scene_->granule_bytes(), kTouched),
        DriverResult::kSuccess);
    std::thread([&] {
      EXPECT_THAT(gate().Close(absl::ZeroDuration()),
                  StatusIs(absl::StatusCode::kDeadlineExceeded));
    }).join();
    EXPECT_TRUE(gate().is_armed());
  }
  EXPECT_EQ(gate().stats().tokens_written, 1u);
  ExpectIsWaitedFor(&held);
  EXPECT_EQ(gate().stats().device_waits, 0u);
}

TEST_F(LaunchGateDrainTest,
       WorkOfAScopeThatNamesNothingIsWaitedForByTheDevice) {
  gate().Arm();
  HeldStream held(device());
  LaunchHeld(&held, {});
  EXPECT_EQ(gate().stats().tokens_written, 0u);
  ExpectIsWaitedFor(&held);
  EXPECT_EQ(gate().stats().device_waits, 1u);
}

TEST_F(LaunchGateDrainTest, WorkOnThePeersStreamIsWaitedForByItsToken) {
  if (scene_->device_count() < 2) GTEST_SKIP() << "there is one device";
  gate().Arm();
  HeldStream held(scene_->device(1));
  LaunchHeld(&held, {held.stream()});
  EXPECT_EQ(gate().stats().tokens_written, 1u);
  EXPECT_THAT(gate().Close(kMoment),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  {
    const ReleaseSoon release(&held);
    FIRN_ASSERT_OK(gate().Close(absl::InfiniteDuration()));
    EXPECT_EQ(scene_->Read(0), scene_->Filled(kTouched));
  }
  EXPECT_EQ(gate().stats().device_waits, 0u);
}

TEST_F(LaunchGateDrainTest, WorkOnThePeersStreamIsWaitedForByItsDevice) {
  if (scene_->device_count() < 2) GTEST_SKIP() << "there is one device";
  HeldStream held(scene_->device(1));
  LaunchHeld(&held, {});
  EXPECT_THAT(gate().Close(kMoment),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("device 1 was still busy")));
  {
    const ReleaseSoon release(&held);
    FIRN_ASSERT_OK(gate().Close(absl::InfiniteDuration()));
    EXPECT_EQ(scene_->Read(0), scene_->Filled(kTouched));
  }
  EXPECT_EQ(gate().stats().device_waits, 1u);
}

TEST_F(LaunchGateDrainTest, ManyClosesInNoTimeSucceedOnceTheDeviceIsDone) {
  { const Scope scope(&gate(), {}); }
  EXPECT_TRUE(
      HoldsSoon([&] { return gate().Close(absl::ZeroDuration()).ok(); }));
  EXPECT_EQ(gate().stats().device_waits, 1u);
}

TEST_F(LaunchGateDrainTest, WhatIsLaunchedAfterAFailedDrainIsWaitedForToo) {
  HeldStream first(device());
  HeldStream second(device());
  LaunchHeld(&first, {});
  EXPECT_THAT(gate().Close(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  LaunchHeld(&second, {});
  first.Release();
  EXPECT_EQ(first.Wait(), DriverResult::kSuccess);
  // The wait for the first alone does not count for the second.
  ExpectIsWaitedFor(&second);
  // A wait that could not begin in time is asked for again.
  EXPECT_GE(gate().stats().device_waits, 2u);
}

// Two drains give up, the second one's wait still queued behind the first's:
// it must not begin when a capture may be open.
TEST_F(LaunchGateDrainTest, AWaitThatNobodyExpectsBreaksNoLaterCapture) {
  HeldStream held(device());
  StreamHandle captured = nullptr;
  ASSERT_EQ(device()->StreamCreate(&captured, kStreamNonBlocking),
            DriverResult::kSuccess);
  for (int i = 0; i < 2; ++i) {
    LaunchHeld(&held, {});
    EXPECT_THAT(gate().Close(kMoment),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  {
    const Scope scope(&gate(), {captured});
    ASSERT_EQ(device()->StreamBeginCapture(captured, CaptureMode::kGlobal),
              DriverResult::kSuccess);
    held.Release();
    // A wait that was still to begin would by now. (This thread must not wait
    // for a stream itself: its own capture forbids that.)
    absl::SleepFor(2 * kMoment);
    GraphHandle graph = nullptr;
    EXPECT_EQ(device()->StreamEndCapture(captured, &graph),
              DriverResult::kSuccess);
    EXPECT_EQ(device()->GraphDestroy(graph), DriverResult::kSuccess);
  }
  FIRN_EXPECT_OK(gate().Close(kPatience));
  EXPECT_EQ(device()->StreamDestroy(captured), DriverResult::kSuccess);
}

TEST_F(LaunchGateDrainTest, ADrainForgetsWhatItHasWaitedFor) {
  gate().Arm();
  HeldStream held(device());
  { const Scope scope(&gate(), {held.stream(), held.stream(), nullptr}); }
  { const Scope scope(&gate(), {}); }
  EXPECT_EQ(gate().stats().tokens_written, 3u);
  FIRN_EXPECT_OK(gate().Close(kPatience));
  EXPECT_EQ(gate().stats().device_waits, 1u);
  FIRN_EXPECT_OK(gate().Close(absl::ZeroDuration()));
  EXPECT_EQ(gate().stats().device_waits, 1u);
  EXPECT_EQ(scene_->tracker().pending_streams(), 0u);
}

TEST_F(LaunchGateDrainTest, WorkOfAStreamDestroyedSinceIsWaitedFor) {
  gate().Arm();
  HeldStream held(device());
  LaunchHeld(&held, {held.stream()});
  ASSERT_EQ(held.DestroyStream(), DriverResult::kSuccess);
  ExpectIsWaitedFor(&held);
  EXPECT_EQ(gate().stats().device_waits, 0u);
}

TEST_F(LaunchGateDrainTest, ManyStreamsOfOneThreadAreAllWaitedFor) {
  gate().Arm();
  constexpr size_t kStreams = 200;
  HeldStream held(device());
  LaunchHeld(&held, {held.stream()});
  for (size_t i = 0; i < kStreams; ++i) {
    StreamHandle stream = nullptr;
    ASSERT_EQ(device()->StreamCreate(&stream, kStreamNonBlocking),
              DriverResult::kSuccess);
    {
      const Scope scope(&gate(), {stream});
      ASSERT_EQ(
          device()->MemsetD8Async(scene_->AddressOf(1) + i * sizeof(uint64_t),
                                  1, sizeof(uint64_t), stream),
          DriverResult::kSuccess);
    }
    ASSERT_EQ(device()->StreamDestroy(stream), DriverResult::kSuccess);
  }
  EXPECT_EQ(gate().stats().tokens_written, kStreams + 1);
  ExpectIsWaitedFor(&held);
}

TEST_F(LaunchGateDrainTest, WhereNoTokenCanBeWrittenTheDeviceIsWaitedFor) {
  gate().Arm();
  HeldStream held(device());
  FIRN_ASSERT_OK(scene_->tracker().Identify(held.stream()));
  {
    const Scope scope(&gate(), {held.stream()});
    ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
    ASSERT_EQ(
        held.Touch(scene_->AddressOf(0), scene_->granule_bytes(), kTouched),
        DriverResult::kSuccess);
    for (size_t i = 0; i < scene_->device_count(); ++i) {
      for (const DriverCall call :
           {DriverCall::kStreamWriteValue64, DriverCall::kEventRecord}) {
        scene_->faults(i).FailRandomlyOf(call, 1, 0, DriverResult::kUnknown);
      }
    }
  }
  for (size_t i = 0; i < scene_->device_count(); ++i) scene_->faults(i).Reset();
  EXPECT_EQ(gate().stats().tokens_written, 0u);
  ExpectIsWaitedFor(&held);
  EXPECT_EQ(gate().stats().device_waits, 1u);
}

// It might be one of another context, which no wait for a device covers.
TEST_F(LaunchGateDrainTest, AStreamThatCannotBeIdentifiedKeepsTheGateOpen) {
  HeldStream held(device());
  {
    const Scope scope(&gate(), {held.stream()});
    for (size_t i = 0; i < scene_->device_count(); ++i) {
      scene_->faults(i).FailRandomlyOf(DriverCall::kStreamIsCapturing, 1, 0,
                                       DriverResult::kUnknown);
    }
  }
  for (size_t i = 0; i < scene_->device_count(); ++i) scene_->faults(i).Reset();
  EXPECT_THAT(gate().Close(kPatience),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  gate().ForgetLaunches();
  FIRN_EXPECT_OK(gate().Close(kPatience));
}

TEST_F(LaunchGateDrainTest, ADeviceThatCannotBeWaitedForKeepsTheGateOpen) {
  { const Scope scope(&gate(), {}); }
  scene_->faults().FailNthOf(DriverCall::kCtxSynchronize, 0,
                             DriverResult::kUnknown);
  EXPECT_THAT(gate().Close(kPatience),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("the launch gate was not closed")));
  EXPECT_EQ(gate().stats().refusals, 1u);
  // The next drain tries again.
  FIRN_EXPECT_OK(gate().Close(kPatience));
  EXPECT_EQ(gate().stats().device_waits, 2u);
}

TEST_F(LaunchGateDrainTest, ALostDeviceIsSaidToBeLost) {
  if (!OpensAfresh(scene_->devices().way)) {
    GTEST_SKIP() << "the device is not this test's alone";
  }
  gate().Arm();
  HeldStream held(device());
  LaunchHeld(&held, {held.stream()});
  { const Scope scope(&gate(), {}); }
  scene_->faults().FailFrom(0, DriverResult::kIllegalAddress);
  EXPECT_THAT(gate().Close(kPatience), StatusIs(absl::StatusCode::kDataLoss));
  { const Scope scope(&gate(), {held.stream()}); }
  EXPECT_THAT(gate().Close(kPatience), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(gate().stats().refusals, 2u);
  scene_->faults().Reset();
}

// --- What the caller has waited for ---

TEST_F(LaunchGateDrainTest, ForgottenLaunchesAreNotWaitedFor) {
  { const Scope scope(&gate(), {}); }
  gate().ForgetLaunches();
  FIRN_EXPECT_OK(gate().Close(absl::ZeroDuration()));
  EXPECT_EQ(gate().stats().device_waits, 0u);
}

TEST_F(LaunchGateDrainTest, TokensOfForgottenLaunchesAreFoundToBeDone) {
  gate().Arm();
  HeldStream held(device());
  { const Scope scope(&gate(), {held.stream()}); }
  ASSERT_EQ(device()->CtxSynchronize(), DriverResult::kSuccess);
  gate().ForgetLaunches();
  FIRN_EXPECT_OK(gate().Close(absl::ZeroDuration()));
}

TEST_F(LaunchGateDrainTest, AWaitLeftByAFailedDrainIsForgottenToo) {
  HeldStream held(device());
  LaunchHeld(&held, {});
  EXPECT_THAT(gate().Close(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  held.Release();
  ASSERT_EQ(device()->CtxSynchronize(), DriverResult::kSuccess);
  gate().ForgetLaunches();
  FIRN_EXPECT_OK(gate().Close(absl::ZeroDuration()));
}

// --- Captures ---

TEST_F(LaunchGateDrainTest, TheGateIsNotClosedWhileANamedStreamCaptures) {
  gate().Arm();
  HeldStream held(device());
  const StreamHandle stream = held.stream();
  {
    const Scope scope(&gate(), {stream});
    ASSERT_EQ(device()->StreamBeginCapture(stream, CaptureMode::kGlobal),
              DriverResult::kSuccess);
  }
  const ScopedRelaxedCapture relaxed(device());
  EXPECT_THAT(gate().Close(kPatience),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("1 stream named by scopes was still "
                                 "capturing")));
  EXPECT_EQ(gate().stats().refusals, 1u);
  GraphHandle graph = nullptr;
  {
    const Scope scope(&gate(), {stream});
    ASSERT_EQ(
        held.Touch(scene_->AddressOf(0), scene_->granule_bytes(), kTouched),
        DriverResult::kSuccess);
    ASSERT_EQ(device()->StreamEndCapture(stream, &graph),
              DriverResult::kSuccess);
  }
  ASSERT_NE(graph, nullptr);
  FIRN_EXPECT_OK(gate().Close(kPatience));
  GraphExecHandle exec = nullptr;
  ASSERT_EQ(device()->GraphInstantiate(&exec, graph, 0),
            DriverResult::kSuccess);
  {
    const Scope scope(&gate(), {stream});
    ASSERT_EQ(device()->GraphLaunch(exec, stream), DriverResult::kSuccess);
  }
  FIRN_EXPECT_OK(gate().Close(kPatience));
  EXPECT_EQ(scene_->Read(0), scene_->Filled(kTouched));
  EXPECT_EQ(gate().stats().device_waits, 0u);
}

TEST_F(LaunchGateDrainTest, ACaptureThatEndedOutsideOfScopesIsForgotten) {
  gate().Arm();
  HeldStream held(device());
  const StreamHandle stream = held.stream();
  // Known before it captures, and so known to be the device's own.
  { const Scope scope(&gate(), {stream}); }
  {
    const Scope scope(&gate(), {stream});
    ASSERT_EQ(device()->StreamBeginCapture(stream, CaptureMode::kRelaxed),
              DriverResult::kSuccess);
  }
  GraphHandle graph = nullptr;
  ASSERT_EQ(device()->StreamEndCapture(stream, &graph), DriverResult::kSuccess);
  EXPECT_THAT(gate().Close(kPatience),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_EQ(device()->CtxSynchronize(), DriverResult::kSuccess);
  gate().ForgetLaunches();
  FIRN_EXPECT_OK(gate().Close(absl::ZeroDuration()));
}

}  // namespace
}  // namespace firn::testing

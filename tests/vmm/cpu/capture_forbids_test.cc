// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls that captures forbid, and on which threads.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/capture_scene.h"

namespace firn::cpu_testing {
namespace {

using ::testing::ElementsAre;

constexpr CaptureMode kModes[] = {
    CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed};

class CaptureForbidsTest : public CaptureScene {
 protected:
  explicit CaptureForbidsTest(const cpu::StreamSetOptions& options = {})
      : CaptureScene(options) {}

  StreamHandle stream_ = NewStream();
  StreamHandle other_ = NewStream();
  EventHandle event_ = NewEvent();
};

TEST_F(CaptureForbidsTest, AStreamIsNotAskedOrWaitedForInAnyMode) {
  for (const CaptureMode mode : kModes) {
    const ScopedCaptureMode scope(CaptureMode::kRelaxed);
    Begin(stream_, mode);
    EXPECT_EQ(streams_.Query(0, stream_).result, kUnsupported);
    EXPECT_EQ(End(stream_), kInvalidated);
    Begin(stream_, mode);
    EXPECT_EQ(streams_.Synchronize(0, stream_).result, kUnsupported);
    EXPECT_EQ(End(stream_), kInvalidated);
  }
}

TEST_F(CaptureForbidsTest, ACapturedEventIsNotAskedOrWaitedForInAnyMode) {
  const ScopedCaptureMode scope(CaptureMode::kRelaxed);
  Begin(stream_, CaptureMode::kRelaxed);
  Record(event_, stream_);
  EXPECT_EQ(streams_.EventQuery(event_).result, DriverResult::kCapturedEvent);
  EXPECT_EQ(End(stream_), kInvalidated);
  Begin(stream_, CaptureMode::kRelaxed);
  Record(event_, stream_);
  EXPECT_EQ(streams_.EventSynchronize(event_).result,
            DriverResult::kCapturedEvent);
  EXPECT_EQ(End(stream_), kInvalidated);
  // It stays captured when the capture is over, and forbids nothing then.
  Begin(stream_, CaptureMode::kRelaxed);
  Record(event_, stream_);
  Finish(stream_);
  Begin(stream_, CaptureMode::kRelaxed);
  EXPECT_EQ(streams_.EventQuery(event_).result, DriverResult::kCapturedEvent);
  Finish(stream_);
}

TEST_F(CaptureForbidsTest, ADeviceIsNotWaitedForInAnyMode) {
  const ScopedCaptureMode scope(CaptureMode::kRelaxed);
  Begin(stream_, CaptureMode::kRelaxed);
  OnAnotherThread([&] {
    const ScopedCaptureMode other_scope(CaptureMode::kRelaxed);
    EXPECT_EQ(streams_.SynchronizeContext(0).result, kUnsupported);
  });
  EXPECT_EQ(End(stream_), kInvalidated);
}

TEST_F(CaptureForbidsTest, TheLegacyStreamIsNotUsedBesideACapturedBlockingOne) {
  const ScopedCaptureMode scope(CaptureMode::kRelaxed);
  const StreamHandle blocking = NewStream(kStreamDefault);
  enum { kEnqueue, kQuery, kSynchronize, kRecord, kWait, kWays };
  for (int way = 0; way < kWays; ++way) {
    SCOPED_TRACE(way);
    Begin(blocking, CaptureMode::kRelaxed);
    const EventHandle never_recorded = NewEvent();
    const auto use = [&] {
      switch (way) {
        case kEnqueue:
          return Enqueue(nullptr, [] {});
        case kQuery:
          return streams_.Query(0, nullptr).result;
        case kSynchronize:
          return streams_.Synchronize(0, nullptr).result;
        case kRecord:
          return streams_.EventRecord(0, never_recorded, nullptr).result;
        default:
          return streams_.WaitEvent(0, nullptr, never_recorded, 0).result;
      }
    };
    EXPECT_EQ(use(), DriverResult::kStreamCaptureImplicit);
    EXPECT_EQ(StatusOf(blocking), CaptureStatus::kInvalidated);
    EXPECT_EQ(use(), DriverResult::kStreamCaptureImplicit);
    EXPECT_EQ(End(blocking), kInvalidated);
    Synchronize(nullptr);
    EXPECT_EQ(use(), kOk);
  }
}

TEST_F(CaptureForbidsTest, TheLegacyStreamMayBeUsedBesideANonBlockingOne) {
  Begin(stream_);
  Log(nullptr, "legacy");
  EXPECT_TRUE(IsValid(stream_));
}

TEST_F(CaptureForbidsTest, AskingWhetherTheLegacyStreamIsCapturedHurtsNothing) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  Begin(blocking);
  CaptureStatus status = CaptureStatus::kNone;
  EXPECT_EQ(streams_.IsCapturing(0, nullptr, &status).result,
            DriverResult::kStreamCaptureImplicit);
  EXPECT_TRUE(IsValid(blocking));
  Finish(blocking);
  EXPECT_EQ(StatusOf(nullptr), CaptureStatus::kNone);
}

TEST_F(CaptureForbidsTest, UnsafeCallsAreFreeWithoutCaptures) {
  EXPECT_EQ(streams_.AdmitUnsafeCall().result, kOk);
  Begin(stream_);
  Finish(stream_);
  EXPECT_EQ(streams_.AdmitUnsafeCall().result, kOk);
}

// Whether an unsafe call is refused, for each mode of the capture and each of
// the calling thread; by the thread that captures and by another one.
TEST_F(CaptureForbidsTest, UnsafeCallsAreForbiddenByTheModesOfBoth) {
  for (const CaptureMode capture : kModes) {
    for (const CaptureMode thread : kModes) {
      for (const bool own : {true, false}) {
        SCOPED_TRACE(std::string(own ? "own" : "other") + " thread, capture " +
                     std::to_string(static_cast<int>(capture)) + ", thread " +
                     std::to_string(static_cast<int>(thread)));
        const bool forbidden = thread != CaptureMode::kRelaxed &&
                               (own ? capture != CaptureMode::kRelaxed
                                    : thread == CaptureMode::kGlobal &&
                                          capture == CaptureMode::kGlobal);
        Begin(stream_, capture);
        const auto call = [&] {
          const ScopedCaptureMode scope(thread);
          EXPECT_EQ(streams_.AdmitUnsafeCall().result,
                    forbidden ? kUnsupported : kOk);
        };
        own ? call() : OnAnotherThread(call);
        EXPECT_EQ(End(stream_), forbidden ? kInvalidated : kOk);
      }
    }
  }
}

TEST_F(CaptureForbidsTest, AnUnsafeCallInvalidatesOnlyTheCapturesThatForbidIt) {
  Begin(stream_, CaptureMode::kGlobal);
  Begin(other_, CaptureMode::kThreadLocal);
  OnAnotherThread(
      [&] { EXPECT_EQ(streams_.AdmitUnsafeCall().result, kUnsupported); });
  EXPECT_FALSE(IsValid(stream_));
  EXPECT_TRUE(IsValid(other_));
}

// What a watchdog thread does to another thread's capture.
TEST_F(CaptureForbidsTest, QuestionsAboutOtherStreamsAreUnsafeCalls) {
  Record(event_, other_);
  enum { kQuery, kSynchronize, kEventQuery, kEventSync, kDevice, kWays };
  for (int way = 0; way < kWays; ++way) {
    SCOPED_TRACE(way);
    for (const bool relaxed : {false, true}) {
      const auto call = [&] {
        switch (way) {
          case kQuery:
            return streams_.Query(0, other_).result;
          case kSynchronize:
            return streams_.Synchronize(0, other_).result;
          case kEventQuery:
            return streams_.EventQuery(event_).result;
          case kEventSync:
            return streams_.EventSynchronize(event_).result;
          default:
            return streams_.SynchronizeContext(0).result;
        }
      };
      const bool allowed = relaxed && way != kDevice;
      Begin(stream_, CaptureMode::kGlobal);
      OnAnotherThread([&] {
        const ScopedCaptureMode scope(relaxed ? CaptureMode::kRelaxed
                                              : CaptureMode::kGlobal);
        EXPECT_EQ(call(), allowed ? kOk : kUnsupported);
      });
      EXPECT_EQ(End(stream_), allowed ? kOk : kInvalidated);
    }
  }
}

TEST_F(CaptureForbidsTest, AModeIsExchangedForTheOneBefore) {
  CaptureMode mode = CaptureMode::kRelaxed;
  ASSERT_EQ(cpu::StreamSet::ExchangeCaptureMode(&mode).result, kOk);
  EXPECT_EQ(mode, CaptureMode::kGlobal);
  OnAnotherThread([] {
    CaptureMode own = CaptureMode::kThreadLocal;
    ASSERT_EQ(cpu::StreamSet::ExchangeCaptureMode(&own).result, kOk);
    EXPECT_EQ(own, CaptureMode::kGlobal);
  });
  ASSERT_EQ(cpu::StreamSet::ExchangeCaptureMode(&mode).result, kOk);
  EXPECT_EQ(mode, CaptureMode::kRelaxed);
  EXPECT_EQ(cpu::StreamSet::ExchangeCaptureMode(nullptr).result,
            DriverResult::kInvalidValue);
  mode = CaptureMode{-1};
  EXPECT_EQ(cpu::StreamSet::ExchangeCaptureMode(&mode).result,
            DriverResult::kInvalidValue);
}

class LenientCaptureTest : public CaptureForbidsTest {
 protected:
  LenientCaptureTest() : CaptureForbidsTest(Options()) {}
  static cpu::StreamSetOptions Options() {
    cpu::StreamSetOptions options;
    options.defect = CpuDefect::kCaptureIgnoresForbiddenCalls;
    return options;
  }
};

TEST_F(LenientCaptureTest, ForbiddenCallsAreLetThroughAndInvalidateNothing) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  const EventHandle outside = NewEvent();
  Record(outside, other_);
  Begin(stream_);
  Begin(blocking);
  Record(event_, stream_);
  EXPECT_EQ(streams_.Query(0, stream_).result, kOk);
  EXPECT_EQ(streams_.Synchronize(0, stream_).result, kOk);
  EXPECT_EQ(streams_.EventQuery(event_).result, kOk);
  EXPECT_EQ(streams_.EventSynchronize(event_).result, kOk);
  EXPECT_EQ(streams_.SynchronizeContext(0).result, kOk);
  EXPECT_EQ(streams_.AdmitUnsafeCall().result, kOk);
  EXPECT_EQ(streams_.WaitEvent(0, stream_, outside, 0).result, kOk);
  EXPECT_EQ(streams_.WaitEvent(0, blocking, event_, 0).result, kOk);
  Log(nullptr, "legacy");
  EXPECT_EQ(streams_.Synchronize(0, nullptr).result, kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("legacy"));
  Finish(stream_);
  Finish(blocking);
}

}  // namespace
}  // namespace firn::cpu_testing

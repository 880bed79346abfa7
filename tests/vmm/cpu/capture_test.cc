// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How captures begin, fork, join and end.

#include "firn/vmm/cpu/capture.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/capture_scene.h"

namespace firn::cpu_testing {
namespace {

using ::testing::IsEmpty;

constexpr DriverResult kIsolation = DriverResult::kStreamCaptureIsolation;

class CaptureTest : public CaptureScene {
 protected:
  // Makes `other` part of the capture of `stream`.
  void Fork(StreamHandle stream, StreamHandle other) {
    const EventHandle event = NewEvent();
    Record(event, stream);
    Wait(other, event);
  }

  StreamHandle stream_ = NewStream();
  StreamHandle other_ = NewStream();
  EventHandle event_ = NewEvent();
};

TEST_F(CaptureTest, AStreamIsCapturingFromBeginToEnd) {
  EXPECT_EQ(StatusOf(stream_), CaptureStatus::kNone);
  Begin(stream_);
  EXPECT_EQ(StatusOf(stream_), CaptureStatus::kActive);
  EXPECT_EQ(StatusOf(other_), CaptureStatus::kNone);
  Finish(stream_);
  EXPECT_EQ(StatusOf(stream_), CaptureStatus::kNone);
}

TEST_F(CaptureTest, CapturedWorkIsNotRun) {
  Begin(stream_);
  Log(stream_, "captured");
  EXPECT_TRUE(streams_.IsIdle());
  Finish(stream_);
  Synchronize(stream_);
  EXPECT_THAT(LogSoFar(), IsEmpty());
}

TEST_F(CaptureTest, TheLegacyStreamCannotBeCaptured) {
  EXPECT_EQ(streams_.BeginCapture(0, nullptr, CaptureMode::kRelaxed).result,
            kUnsupported);
}

TEST_F(CaptureTest, AModeIsOneOfThree) {
  EXPECT_EQ(streams_.BeginCapture(0, stream_, CaptureMode{3}).result,
            DriverResult::kInvalidValue);
  EXPECT_EQ(StatusOf(stream_), CaptureStatus::kNone);
}

TEST_F(CaptureTest, ACapturedStreamCannotBeginAnother) {
  Begin(stream_);
  Fork(stream_, other_);
  for (const StreamHandle stream : {stream_, other_}) {
    EXPECT_EQ(streams_.BeginCapture(0, stream, CaptureMode::kGlobal).result,
              DriverResult::kIllegalState);
  }
  EXPECT_TRUE(IsValid(stream_));
}

TEST_F(CaptureTest, EndNeedsACaptureAndAPlaceForTheGraph) {
  EXPECT_EQ(End(stream_), DriverResult::kIllegalState);
  EXPECT_EQ(End(nullptr), DriverResult::kIllegalState);
  Begin(stream_);
  EXPECT_EQ(streams_.EndCapture(0, stream_, nullptr).result,
            DriverResult::kInvalidValue);
  EXPECT_TRUE(IsValid(stream_));
}

TEST_F(CaptureTest, EndIsForTheStreamWhereTheCaptureBegan) {
  Begin(stream_);
  Fork(stream_, other_);
  EXPECT_EQ(End(other_), DriverResult::kStreamCaptureUnmatched);
  EXPECT_TRUE(IsValid(stream_));
}

TEST_F(CaptureTest, EndIsForTheThreadThatBeganUnlessRelaxed) {
  for (const CaptureMode mode :
       {CaptureMode::kGlobal, CaptureMode::kThreadLocal}) {
    Begin(stream_, mode);
    OnAnotherThread([&] {
      EXPECT_EQ(End(stream_), DriverResult::kStreamCaptureWrongThread);
    });
    Finish(stream_);
  }
  Begin(stream_, CaptureMode::kRelaxed);
  OnAnotherThread([&] { Finish(stream_); });
}

TEST_F(CaptureTest, AStreamThatWaitsForACapturedEventIsCapturedToo) {
  Begin(stream_);
  Fork(stream_, other_);
  EXPECT_TRUE(IsValid(other_));
  Log(other_, "captured");
  Fork(other_, stream_);
  Finish(stream_);
  EXPECT_EQ(StatusOf(other_), CaptureStatus::kNone);
  Synchronize(other_);
  EXPECT_THAT(LogSoFar(), IsEmpty());
}

TEST_F(CaptureTest, AForkMustBeJoined) {
  for (const bool with_work : {false, true}) {
    Begin(stream_);
    Fork(stream_, other_);
    if (with_work) Log(other_, "captured");
    GraphHandle graph = nullptr;
    EXPECT_EQ(End(stream_, &graph), DriverResult::kStreamCaptureUnjoined);
    EXPECT_EQ(graph, nullptr);
    // The capture is over all the same.
    EXPECT_EQ(StatusOf(stream_), CaptureStatus::kNone);
    EXPECT_EQ(StatusOf(other_), CaptureStatus::kNone);
  }
}

TEST_F(CaptureTest, WorkAfterTheJoinMustBeJoinedAgain) {
  Begin(stream_);
  Fork(stream_, other_);
  Log(other_, "joined");
  Fork(other_, stream_);
  Log(other_, "not joined");
  EXPECT_EQ(End(stream_), DriverResult::kStreamCaptureUnjoined);
}

TEST_F(CaptureTest, AForkMayBeJoinedThroughAnotherStream) {
  const StreamHandle third = NewStream();
  Begin(stream_);
  Fork(stream_, other_);
  Fork(other_, third);
  Log(other_, "work");
  Log(third, "work");
  Fork(other_, third);
  Fork(third, stream_);
  Finish(stream_);
}

TEST_F(CaptureTest, AnEventStandsForItsLastRecordOnly) {
  Begin(stream_);
  Record(event_, stream_);
  Fork(stream_, other_);
  Record(event_, other_);
  Log(other_, "after the record");
  Wait(stream_, event_);
  EXPECT_EQ(End(stream_), DriverResult::kStreamCaptureUnjoined);
}

TEST_F(CaptureTest, AnEventNeverRecordedMayBeWaitedFor) {
  Begin(stream_);
  Wait(stream_, event_);
  Finish(stream_);
}

TEST_F(CaptureTest, AnEventRecordedOutsideMayNot) {
  Record(event_, other_);
  Synchronize(other_);
  Begin(stream_);
  EXPECT_EQ(streams_.WaitEvent(0, stream_, event_, 0).result, kIsolation);
  EXPECT_EQ(End(stream_), kInvalidated);
}

TEST_F(CaptureTest, AnEventOfAnEarlierCaptureMayNot) {
  Begin(stream_);
  Record(event_, stream_);
  Finish(stream_);
  EXPECT_EQ(streams_.WaitEvent(0, other_, event_, 0).result, kIsolation);
  EXPECT_EQ(StatusOf(other_), CaptureStatus::kNone);
  Begin(other_);
  EXPECT_EQ(streams_.WaitEvent(0, other_, event_, 0).result, kIsolation);
  EXPECT_EQ(End(other_), kInvalidated);
}

TEST_F(CaptureTest, AnEventMayBeRecordedOutsideAgain) {
  Begin(stream_);
  Record(event_, stream_);
  Finish(stream_);
  Record(event_, stream_);
  EXPECT_EQ(streams_.EventSynchronize(event_).result, kOk);
  Wait(other_, event_);
  EXPECT_EQ(StatusOf(other_), CaptureStatus::kNone);
}

TEST_F(CaptureTest, TwoCapturesMustNotMerge) {
  Begin(stream_);
  Begin(other_);
  Record(event_, other_);
  EXPECT_EQ(streams_.WaitEvent(0, stream_, event_, 0).result,
            DriverResult::kStreamCaptureMerge);
  EXPECT_EQ(End(stream_), kInvalidated);
  EXPECT_EQ(End(other_), kInvalidated);
}

TEST_F(CaptureTest, TheLegacyStreamCannotJoin) {
  Begin(stream_);
  Record(event_, stream_);
  EXPECT_EQ(streams_.WaitEvent(0, nullptr, event_, 0).result, kUnsupported);
  EXPECT_EQ(End(stream_), kInvalidated);
}

TEST_F(CaptureTest, AnInvalidatedCaptureRefusesEverythingUntilItIsEnded) {
  const StreamHandle outside = NewStream();
  Begin(stream_, CaptureMode::kRelaxed);
  Fork(stream_, other_);
  Record(event_, stream_);
  ASSERT_EQ(streams_.Query(0, stream_).result, kUnsupported);
  for (const StreamHandle stream : {stream_, other_}) {
    EXPECT_EQ(StatusOf(stream), CaptureStatus::kInvalidated);
    EXPECT_EQ(Enqueue(stream, [] {}), kInvalidated);
    EXPECT_EQ(streams_.EventRecord(0, event_, stream).result, kInvalidated);
    EXPECT_EQ(streams_.WaitEvent(0, stream, event_, 0).result, kInvalidated);
    EXPECT_EQ(streams_.Query(0, stream).result, kInvalidated);
    EXPECT_EQ(streams_.Synchronize(0, stream).result, kInvalidated);
    EXPECT_EQ(streams_.BeginCapture(0, stream, CaptureMode::kGlobal).result,
              kInvalidated);
  }
  // Nobody joins it any more.
  EXPECT_EQ(streams_.WaitEvent(0, outside, event_, 0).result, kInvalidated);
  EXPECT_EQ(StatusOf(outside), CaptureStatus::kNone);

  GraphHandle graph = nullptr;
  EXPECT_EQ(End(stream_, &graph), kInvalidated);
  EXPECT_EQ(graph, nullptr);
  for (const StreamHandle stream : {stream_, other_}) {
    EXPECT_EQ(StatusOf(stream), CaptureStatus::kNone);
    EXPECT_EQ(Enqueue(stream, [] {}), kOk);
    Synchronize(stream);
  }
}

TEST_F(CaptureTest, ACapturedStreamIsDestroyedOnlyAfterItsCapture) {
  auto held = std::make_shared<int>(0);
  Begin(stream_);
  Fork(stream_, other_);
  ASSERT_EQ(Enqueue(stream_, [held] { (void)held; }), kOk);
  EXPECT_EQ(streams_.Destroy(other_).result, kUnsupported);
  EXPECT_EQ(StatusOf(stream_), CaptureStatus::kInvalidated);
  // Cleaning up goes without an end, and leaves nothing behind.
  EXPECT_EQ(streams_.Destroy(other_).result, kOk);
  EXPECT_EQ(streams_.Destroy(stream_).result, kOk);
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(streams_.AdmitUnsafeCall().result, kOk);
}

TEST_F(CaptureTest, WhatMakesNoGraphIsDestroyed) {
  auto held = std::make_shared<int>(0);
  Begin(stream_);
  Fork(stream_, other_);
  ASSERT_EQ(Enqueue(stream_, [held] { (void)held; }), kOk);
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_EQ(End(stream_), DriverResult::kStreamCaptureUnjoined);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(CaptureEndTest, StreamsMayGoWhileCapturing) {
  cpu::StreamSet streams{cpu::StreamSetOptions()};
  StreamHandle stream = nullptr;
  ASSERT_EQ(streams.Create(0, &stream, 0).result, kOk);
  ASSERT_EQ(streams.BeginCapture(0, stream, CaptureMode::kGlobal).result, kOk);
  cpu::StreamWork work;
  work.run = [](const cpu::WorkOrder&) {};
  ASSERT_EQ(streams.Enqueue(0, stream, work).result, kOk);
}

}  // namespace
}  // namespace firn::cpu_testing

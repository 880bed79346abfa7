// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams and events of several devices.

#include "firn/vmm/cpu/stream_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/stream_scene.h"

namespace firn::cpu_testing {
namespace {

using ::testing::ElementsAre;

constexpr DriverResult kBadHandle = DriverResult::kInvalidHandle;

class StreamDevicesTest : public StreamScene {
 protected:
  StreamDevicesTest() : StreamScene(Options()) {}
  static cpu::StreamSetOptions Options() {
    cpu::StreamSetOptions options;
    options.device_count = 2;
    return options;
  }
};

TEST_F(StreamDevicesTest, WorkGoesToStreamsOfItsOwnDeviceOnly) {
  const StreamHandle stream = NewStream(kStreamNonBlocking, /*device=*/1);
  EXPECT_EQ(streams_.CheckStream(1, stream).result, kOk);
  EXPECT_EQ(streams_.CheckStream(0, stream).result, kBadHandle);
  EXPECT_EQ(streams_.CheckStream(0, nullptr).result, kOk);
  EXPECT_EQ(Enqueue(
                stream, [] {}, /*device=*/0),
            kBadHandle);
  EXPECT_EQ(Enqueue(
                stream, [] {}, /*device=*/1),
            kOk);
  EXPECT_EQ(streams_.WaitEvent(0, stream, NewEvent(), 0).result, kBadHandle);
  EXPECT_EQ(streams_.BeginCapture(0, stream, CaptureMode::kRelaxed).result,
            kBadHandle);
}

TEST_F(StreamDevicesTest, AnyDeviceMayAskAboutAStream) {
  const StreamHandle stream = NewStream(kStreamNonBlocking, /*device=*/1);
  uint64_t id = 0;
  CaptureStatus status = CaptureStatus::kActive;
  EXPECT_EQ(streams_.Query(0, stream).result, kOk);
  EXPECT_EQ(streams_.Synchronize(0, stream).result, kOk);
  EXPECT_EQ(streams_.GetId(0, stream, &id).result, kOk);
  EXPECT_EQ(streams_.IsCapturing(0, stream, &status).result, kOk);
  EXPECT_EQ(status, CaptureStatus::kNone);
  EXPECT_EQ(streams_.Destroy(stream).result, kOk);
}

TEST_F(StreamDevicesTest, AnEventIsRecordedOnItsOwnDeviceOnly) {
  const StreamHandle streams[] = {NewStream(kStreamNonBlocking, 0),
                                  NewStream(kStreamNonBlocking, 1)};
  const EventHandle event = NewEvent(/*device=*/1);
  EXPECT_EQ(streams_.EventRecord(0, event, streams[0]).result, kBadHandle);
  EXPECT_EQ(streams_.EventRecord(0, event, streams[1]).result, kBadHandle);
  EXPECT_EQ(streams_.EventRecord(1, event, streams[1]).result, kOk);
}

TEST_F(StreamDevicesTest, AStreamWaitsForAnEventOfAnotherDevice) {
  const StreamHandle first = NewStream(kStreamNonBlocking, 0);
  const StreamHandle second = NewStream(kStreamNonBlocking, 1);
  const EventHandle event = NewEvent(/*device=*/0);
  HoldUp(first);
  Log(first, "first");
  Record(event, first);
  ASSERT_EQ(streams_.WaitEvent(1, second, event, 0).result, kOk);
  Log(second, "second", /*device=*/1);
  gate_.Open();
  Synchronize(second);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "second"));
}

TEST_F(StreamDevicesTest, EachDeviceHasALegacyStreamOfItsOwn) {
  uint64_t ids[2] = {};
  ASSERT_EQ(streams_.GetId(0, nullptr, &ids[0]).result, kOk);
  ASSERT_EQ(streams_.GetId(1, nullptr, &ids[1]).result, kOk);
  EXPECT_NE(ids[0], ids[1]);
  const StreamHandle blocking = NewStream(kStreamDefault, /*device=*/1);
  HoldUp(nullptr, /*device=*/0);
  Log(nullptr, "legacy", /*device=*/1);
  Log(blocking, "blocking", /*device=*/1);
  EXPECT_EQ(streams_.Synchronize(1, blocking).result, kOk);
  EXPECT_EQ(streams_.Synchronize(1, nullptr).result, kOk);
  EXPECT_EQ(streams_.Query(0, nullptr).result, kNotReady);
  EXPECT_THAT(LogSoFar(), ElementsAre("legacy", "blocking"));
}

TEST_F(StreamDevicesTest, ADeviceIsWaitedForAlone) {
  const StreamHandle other = NewStream(kStreamNonBlocking, /*device=*/0);
  const StreamHandle stream = NewStream(kStreamNonBlocking, /*device=*/1);
  HoldUp(other, /*device=*/0);
  const auto a = Track(stream, /*device=*/1);
  ASSERT_EQ(streams_.SynchronizeContext(1).result, kOk);
  EXPECT_EQ(streams_.Query(0, other).result, kNotReady);
  EXPECT_EQ(streams_.Query(0, stream).result, kOk);
  EXPECT_EQ(a->position, 1u);
}

TEST_F(StreamDevicesTest, OnlyTheDeviceOfACaptureIsNotWaitedFor) {
  const StreamHandle stream = NewStream(kStreamDefault, /*device=*/1);
  ASSERT_EQ(streams_.BeginCapture(1, stream, CaptureMode::kRelaxed).result,
            kOk);
  EXPECT_EQ(streams_.SynchronizeContext(0).result, kOk);
  EXPECT_EQ(Enqueue(
                nullptr, [] {}, /*device=*/0),
            kOk);
  EXPECT_EQ(streams_.SynchronizeContext(1).result,
            DriverResult::kStreamCaptureUnsupported);
  EXPECT_EQ(Enqueue(
                nullptr, [] {}, /*device=*/1),
            DriverResult::kStreamCaptureImplicit);
}

}  // namespace
}  // namespace firn::cpu_testing

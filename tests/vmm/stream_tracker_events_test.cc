// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tokens as events, and drivers that have no ids of streams.

#include <memory>
#include <utility>
#include <vector>

#include "firn/vmm/counting_driver.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/stream_tracker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/stream_tracker_scene.h"

namespace firn::testing {
namespace {

// One handle, which is that of another stream whenever a test wants it.
class ReusedHandleDriver : public DriverWrapper {
 public:
  ReusedHandleDriver(Driver* base, bool has_ids)
      : DriverWrapper(base), has_ids_(has_ids) {}

  // A handle that is no stream's.
  StreamHandle handle() { return reinterpret_cast<StreamHandle>(&handle_); }
  void set_stream(StreamHandle stream) { stream_ = stream; }

  DriverResult StreamGetId(StreamHandle stream, uint64_t* id) override {
    return has_ids_ ? base()->StreamGetId(Real(stream), id)
                    : DriverResult::kNotSupported;
  }
  DriverResult StreamIsCapturing(StreamHandle stream,
                                 CaptureStatus* status) override {
    return base()->StreamIsCapturing(Real(stream), status);
  }
  DriverResult EventRecord(EventHandle event, StreamHandle stream) override {
    return base()->EventRecord(event, Real(stream));
  }
  DriverResult StreamWriteValue64(StreamHandle stream, DevicePtr address,
                                  uint64_t value, uint32_t flags) override {
    return base()->StreamWriteValue64(Real(stream), address, value, flags);
  }

 private:
  StreamHandle Real(StreamHandle stream) {
    return stream == handle() ? stream_ : stream;
  }

  const bool has_ids_;
  char handle_ = 0;
  StreamHandle stream_ = nullptr;
};

class StreamTrackerEventsTest : public StreamTrackerScene {
 protected:
  StreamTrackerOptions WithAtMost(uint32_t max_pending_events) {
    StreamTrackerOptions options;
    options.value_writes = false;
    options.max_pending_events = max_pending_events;
    return options;
  }
  uint64_t EventsOf(const CountingDriver& counted) {
    return counted.count(DriverCall::kEventCreate);
  }
};

TEST_F(StreamTrackerEventsTest, EventsAreWrittenWhereValuesAreNotWanted) {
  EXPECT_FALSE(TrackByEvents()->writes_values());
}

TEST_F(StreamTrackerEventsTest, ADeviceWithoutContentsGetsEvents) {
  CpuDriverOptions options;
  options.storage = CpuStorage::kGhost;
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CpuDriver> ghost,
                            CpuDriver::Create(options));
  const std::unique_ptr<StreamTracker> tracker =
      Track(StreamTrackerOptions(), {ghost.get()});
  EXPECT_FALSE(tracker->writes_values());
  HeldStream held(ghost.get());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken token = MarkOn(*tracker, held.stream());
  EXPECT_FALSE(IsDone(*tracker, token));
  held.Release();
  FIRN_EXPECT_OK(Wait(*tracker, token));
}

TEST_F(StreamTrackerEventsTest, BeyondTheBoundTheLatestEventIsRecordedAgain) {
  CountingDriver counted(device(), CostModel(CostProfile::kA100),
                         devices().granule_bytes);
  const std::unique_ptr<StreamTracker> tracker =
      Track(WithAtMost(2), {&counted});
  HeldStream held(device());
  const uint64_t before = EventsOf(counted);
  ASSERT_EQ(held.Hold(), kOk);
  std::vector<StreamToken> tokens;
  for (int i = 0; i < 10; ++i) {
    tokens.push_back(MarkOn(*tracker, held.stream()));
    FIRN_EXPECT_OK(tracker->CheckInvariants());
  }
  EXPECT_EQ(EventsOf(counted) - before, 2u);
  held.Release();
  ASSERT_EQ(held.Wait(), kOk);
  // The event of the second token is that of the last by now.
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken last = MarkOn(*tracker, held.stream());
  for (const StreamToken& token : tokens) EXPECT_TRUE(IsDone(*tracker, token));
  EXPECT_FALSE(IsDone(*tracker, last));
  FIRN_EXPECT_OK(tracker->CheckInvariants());
}

TEST_F(StreamTrackerEventsTest, ATokenWhoseEventWasRecordedAgainIsDoneLater) {
  const std::unique_ptr<StreamTracker> tracker = Track(WithAtMost(1));
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken first = MarkOn(*tracker, held.stream());
  const StreamToken second = MarkOn(*tracker, held.stream());
  EXPECT_FALSE(IsDone(*tracker, first));
  held.Release();
  FIRN_EXPECT_OK(Wait(*tracker, first));
  EXPECT_TRUE(IsDone(*tracker, second));
}

TEST_F(StreamTrackerEventsTest, EventsAreUsedAgain) {
  CountingDriver counted(device(), CostModel(CostProfile::kA100),
                         devices().granule_bytes);
  const std::unique_ptr<StreamTracker> tracker =
      Track(WithAtMost(4), {&counted});
  const uint64_t before = EventsOf(counted);
  for (int i = 0; i < 20; ++i) {
    const StreamHandle stream = MakeStream();
    FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, stream)));
    EXPECT_EQ(device()->StreamDestroy(stream), kOk);
  }
  EXPECT_EQ(EventsOf(counted) - before, 1u);
}

// Nobody polls: what is done is found out when room is needed, with less than
// one question a token.
TEST_F(StreamTrackerEventsTest, MarksOfAStreamThatKeepsUpAskSeldom) {
  CountingDriver counted(device(), CostModel(CostProfile::kA100),
                         devices().granule_bytes);
  const std::unique_ptr<StreamTracker> tracker =
      Track(WithAtMost(8), {&counted});
  const StreamHandle stream = MakeStream();
  for (int i = 0; i < 80; ++i) {
    MarkOn(*tracker, stream);
    ASSERT_EQ(device()->StreamSynchronize(stream), kOk);
    FIRN_ASSERT_OK(tracker->CheckInvariants());
    ASSERT_EQ(tracker->pending_streams(), 1u);
  }
  EXPECT_LE(counted.count(DriverCall::kEventQuery), 20u);
  EXPECT_LE(counted.count(DriverCall::kEventCreate), 9u);  // one to try with
  EXPECT_EQ(device()->StreamDestroy(stream), kOk);
}

// What is done is found out all the same.
TEST_F(StreamTrackerEventsTest,
       AMarkThatFailsOnADoneStreamLeavesNothingPending) {
  FaultingDriver faults(device());
  const std::unique_ptr<StreamTracker> tracker =
      Track(WithAtMost(2), {&faults});
  const StreamHandle stream = MakeStream();
  MarkOn(*tracker, stream);
  MarkOn(*tracker, stream);
  ASSERT_EQ(device()->StreamSynchronize(stream), kOk);
  EXPECT_EQ(tracker->pending_streams(), 1u);
  faults.FailNthOf(DriverCall::kEventRecord, 0, DriverResult::kUnknown);
  EXPECT_THAT(tracker->Mark(stream), StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(tracker->pending_streams(), 0u);
  FIRN_EXPECT_OK(tracker->CheckInvariants());
  FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, stream)));
  FIRN_EXPECT_OK(tracker->CheckInvariants());
  EXPECT_EQ(device()->StreamDestroy(stream), kOk);
}

TEST_F(StreamTrackerEventsTest, AForeignStreamCannotBeMarked) {
  if (device_count() < 2) GTEST_SKIP() << "there is one device";
  const std::unique_ptr<StreamTracker> tracker = TrackByEvents();
  const StreamHandle stream = MakeStream(1);
  EXPECT_THAT(tracker->Mark(stream),
              StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_EQ(tracker->pending_streams(), 0u);
  FIRN_EXPECT_OK(tracker->CheckInvariants());
  EXPECT_EQ(device(1)->StreamDestroy(stream), kOk);
}

TEST_F(StreamTrackerEventsTest, AStreamOfASecondContextIsForeign) {
  auto* const cpu = dynamic_cast<CpuDriver*>(device());
  if (cpu == nullptr) GTEST_SKIP() << "only the CPU driver makes contexts";
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CpuDriver> context,
                            cpu->CreateContext());
  const std::unique_ptr<StreamTracker> tracker = TrackByEvents();
  StreamHandle stream = nullptr;
  ASSERT_EQ(context->StreamCreate(&stream, kStreamNonBlocking), kOk);
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity identity,
                            tracker->Identify(stream));
  EXPECT_TRUE(identity.is_foreign);
  EXPECT_THAT(tracker->Mark(stream),
              StatusIs(absl::StatusCode::kUnimplemented));
}

TEST_F(StreamTrackerEventsTest, ADestroyedStreamsHandleIsAnotherStream) {
  ReusedHandleDriver driver(device(), /*has_ids=*/true);
  for (const bool values : {false, true}) {
    StreamTrackerOptions options;
    options.value_writes = values;
    const std::unique_ptr<StreamTracker> tracker = Track(options, {&driver});
    const StreamHandle idle = MakeStream();
    HeldStream held(device());
    ASSERT_EQ(held.Hold(), kOk);
    driver.set_stream(held.stream());
    const StreamToken old = MarkOn(*tracker, driver.handle());
    driver.set_stream(idle);
    const StreamToken other = MarkOn(*tracker, driver.handle());
    EXPECT_NE(old.stream_id, other.stream_id);
    FIRN_EXPECT_OK(Wait(*tracker, other));
    EXPECT_FALSE(IsDone(*tracker, old));
    held.Release();
    FIRN_EXPECT_OK(Wait(*tracker, old));
    EXPECT_EQ(device()->StreamDestroy(idle), kOk);
  }
}

TEST_F(StreamTrackerEventsTest, WithoutIdsTokensOfAReusedHandleCountForBoth) {
  ReusedHandleDriver driver(device(), /*has_ids=*/false);
  StreamTrackerOptions options;
  options.max_pending_events = 1;
  const std::unique_ptr<StreamTracker> tracker = Track(options, {&driver});
  EXPECT_FALSE(tracker->writes_values());
  const StreamHandle idle = MakeStream();
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  driver.set_stream(held.stream());
  const StreamToken old = MarkOn(*tracker, driver.handle());
  driver.set_stream(idle);
  const StreamToken other = MarkOn(*tracker, driver.handle());
  EXPECT_EQ(old.stream_id, other.stream_id);
  ASSERT_EQ(device()->StreamSynchronize(idle), kOk);
  EXPECT_FALSE(IsDone(*tracker, other));
  EXPECT_FALSE(IsDone(*tracker, old));
  FIRN_EXPECT_OK(tracker->CheckInvariants());
  held.Release();
  FIRN_EXPECT_OK(Wait(*tracker, old));
  FIRN_EXPECT_OK(Wait(*tracker, other));
  FIRN_EXPECT_OK(tracker->CheckInvariants());
  EXPECT_EQ(device()->StreamDestroy(idle), kOk);
}

TEST_F(StreamTrackerEventsTest, WithoutIdsAHandleMayBeForeignLater) {
  if (device_count() < 2) GTEST_SKIP() << "there is one device";
  ReusedHandleDriver driver(device(), /*has_ids=*/false);
  const std::unique_ptr<StreamTracker> tracker = TrackByEvents({&driver});
  const StreamHandle near = MakeStream(0);
  const StreamHandle far = MakeStream(1);
  driver.set_stream(near);
  FIRN_ASSERT_OK_AND_ASSIGN(StreamIdentity identity,
                            tracker->Identify(driver.handle()));
  EXPECT_FALSE(identity.is_foreign);
  driver.set_stream(far);
  FIRN_ASSERT_OK_AND_ASSIGN(identity, tracker->Identify(driver.handle()));
  EXPECT_TRUE(identity.is_foreign);
  EXPECT_EQ(device(0)->StreamDestroy(near), kOk);
  EXPECT_EQ(device(1)->StreamDestroy(far), kOk);
}

}  // namespace
}  // namespace firn::testing

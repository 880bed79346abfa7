// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tokens, whichever way they are written: by values where the device can, and
// by events.

#include "firn/vmm/stream_tracker.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "firn/vmm/driver_call.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/stream_tracker_scene.h"

namespace firn::testing {
namespace {

class StreamTrackerTest : public StreamTrackerScene,
                          public ::testing::WithParamInterface<bool> {
 protected:
  std::unique_ptr<StreamTracker> Track(std::vector<Driver*> drivers = {}) {
    StreamTrackerOptions options;
    options.value_writes = GetParam();
    return StreamTrackerScene::Track(options, std::move(drivers));
  }
};

INSTANTIATE_TEST_SUITE_P(EachKind, StreamTrackerTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Values" : "Events";
                         });

TEST_P(StreamTrackerTest, ATokenIsPendingWhileTheWorkBeforeItRuns) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken token = MarkOn(*tracker, held.stream());
  EXPECT_FALSE(IsDone(*tracker, token));
  EXPECT_EQ(tracker->pending_streams(), 1u);
  FIRN_EXPECT_OK(tracker->CheckInvariants());
  held.Release();
  FIRN_EXPECT_OK(Wait(*tracker, token));
  EXPECT_TRUE(IsDone(*tracker, token));
  EXPECT_EQ(tracker->pending_streams(), 0u);
  EXPECT_EQ(tracker->marks_total(), 1u);
  FIRN_EXPECT_OK(tracker->CheckInvariants());
}

TEST_P(StreamTrackerTest, ADefaultTokenIsDone) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  EXPECT_TRUE(IsDone(*tracker, StreamToken()));
  FIRN_EXPECT_OK(tracker->WaitUntilDone(StreamToken(), absl::InfinitePast()));
}

TEST_P(StreamTrackerTest, AWaitEndsAtItsDeadline) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken token = MarkOn(*tracker, held.stream());
  EXPECT_THAT(
      tracker->WaitUntilDone(token, absl::Now() + absl::Milliseconds(5)),
      StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_P(StreamTrackerTest, EarlierTokensAreDoneWhileLaterWorkGoesOn) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken first = MarkOn(*tracker, held.stream());
  const StreamToken second = MarkOn(*tracker, held.stream());
  EXPECT_LT(first.sequence, second.sequence);
  held.Release();
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken third = MarkOn(*tracker, held.stream());
  FIRN_EXPECT_OK(Wait(*tracker, second));
  EXPECT_TRUE(IsDone(*tracker, first));
  EXPECT_FALSE(IsDone(*tracker, third));
  FIRN_EXPECT_OK(tracker->CheckInvariants());
}

TEST_P(StreamTrackerTest, ManyTokensOfOneStreamAreDoneInOrder) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  std::vector<StreamToken> tokens;
  for (int i = 0; i < 100; ++i) {
    tokens.push_back(MarkOn(*tracker, held.stream()));
    FIRN_ASSERT_OK(tracker->CheckInvariants());
  }
  for (const StreamToken& token : tokens) EXPECT_FALSE(IsDone(*tracker, token));
  held.Release();
  // Found in any order, they are known in the order of the stream.
  FIRN_EXPECT_OK(Wait(*tracker, tokens[50]));
  for (size_t i = 0; i < 50; ++i) EXPECT_TRUE(IsDone(*tracker, tokens[i]));
  FIRN_EXPECT_OK(Wait(*tracker, tokens.back()));
  EXPECT_EQ(tracker->pending_streams(), 0u);
}

TEST_P(StreamTrackerTest, StreamsAreTrackedEachByItself) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  const StreamHandle idle = MakeStream();
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken pending = MarkOn(*tracker, held.stream());
  const StreamToken done = MarkOn(*tracker, idle);
  FIRN_EXPECT_OK(Wait(*tracker, done));
  EXPECT_FALSE(IsDone(*tracker, pending));
  EXPECT_EQ(device()->StreamDestroy(idle), kOk);
}

TEST_P(StreamTrackerTest, TokensOfADestroyedStreamAreDoneAllTheSame) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken token = MarkOn(*tracker, held.stream());
  ASSERT_EQ(held.DestroyStream(), kOk);
  EXPECT_FALSE(IsDone(*tracker, token));
  held.Release();
  FIRN_EXPECT_OK(Wait(*tracker, token));
}

TEST_P(StreamTrackerTest, TheNullStreamIsTheLegacyStreamOfTheFirstDevice) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  const StreamHandle blocking = MakeStream(0, kStreamDefault);
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity legacy,
                            tracker->Identify(nullptr));
  EXPECT_FALSE(legacy.is_foreign);
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity other,
                            tracker->Identify(blocking));
  EXPECT_NE(legacy.id, other.id);
  const StreamToken token = MarkOn(*tracker, nullptr);
  EXPECT_EQ(token.stream_id, legacy.id);
  FIRN_EXPECT_OK(Wait(*tracker, token));
  EXPECT_EQ(device()->StreamDestroy(blocking), kOk);
}

TEST_P(StreamTrackerTest, AHandleOfNoStreamIsRefused) {
  if (devices().way == Way::kGpu) {
    GTEST_SKIP() << "a real driver follows the handle";
  }
  const std::unique_ptr<StreamTracker> tracker = Track();
  const StreamHandle stream = MakeStream();
  ASSERT_EQ(device()->StreamDestroy(stream), kOk);
  EXPECT_THAT(tracker->Identify(stream),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(tracker->Mark(stream),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(tracker->marks_total(), 0u);
}

TEST_P(StreamTrackerTest, AStreamKeepsItsIdentity) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  const StreamHandle stream = MakeStream();
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity first,
                            tracker->Identify(stream));
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity again,
                            tracker->Identify(stream));
  EXPECT_FALSE(first.is_foreign);
  EXPECT_EQ(first.id, again.id);
  EXPECT_EQ(MarkOn(*tracker, stream).stream_id, first.id);
  EXPECT_EQ(device()->StreamDestroy(stream), kOk);
}

TEST_P(StreamTrackerTest, AKnownStreamIsIdentifiedWithOneDriverCall) {
  FaultingDriver counted(device());
  const std::unique_ptr<StreamTracker> tracker = Track({&counted});
  const StreamHandle stream = MakeStream();
  FIRN_ASSERT_OK(tracker->Identify(stream));
  counted.Reset();
  FIRN_ASSERT_OK(tracker->Identify(stream));
  EXPECT_EQ(counted.calls(), 1u);
  EXPECT_EQ(device()->StreamDestroy(stream), kOk);
}

TEST_P(StreamTrackerTest, WhatIsKnownToBeDoneIsNotPolled) {
  FaultingDriver counted(device());
  const std::unique_ptr<StreamTracker> tracker = Track({&counted});
  const StreamHandle stream = MakeStream();
  const StreamToken token = MarkOn(*tracker, stream);
  FIRN_ASSERT_OK(Wait(*tracker, token));
  counted.Reset();
  EXPECT_TRUE(IsDone(*tracker, token));
  EXPECT_EQ(counted.calls(), 0u);
  EXPECT_EQ(device()->StreamDestroy(stream), kOk);
}

TEST_P(StreamTrackerTest, StreamsOfTwoDevicesAreTracked) {
  if (device_count() < 2) GTEST_SKIP() << "there is one device";
  const std::unique_ptr<StreamTracker> tracker = Track({device(0), device(1)});
  const StreamHandle near = MakeStream(0);
  HeldStream far(device(1));
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity identity,
                            tracker->Identify(far.stream()));
  EXPECT_FALSE(identity.is_foreign);
  ASSERT_EQ(far.Hold(), kOk);
  const StreamToken far_token = MarkOn(*tracker, far.stream());
  FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, near)));
  EXPECT_FALSE(IsDone(*tracker, far_token));
  far.Release();
  FIRN_EXPECT_OK(Wait(*tracker, far_token));
  EXPECT_EQ(device(0)->StreamDestroy(near), kOk);
}

TEST_P(StreamTrackerTest, AStreamOfNoDeviceOfTheTrackerIsForeign) {
  if (device_count() < 2) GTEST_SKIP() << "there is one device";
  const std::unique_ptr<StreamTracker> tracker = Track({device(0)});
  const StreamHandle stream = MakeStream(1);
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity identity,
                            tracker->Identify(stream));
  EXPECT_TRUE(identity.is_foreign);
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity again,
                            tracker->Identify(stream));
  EXPECT_TRUE(again.is_foreign);
  EXPECT_EQ(again.id, identity.id);
  EXPECT_EQ(device(1)->StreamDestroy(stream), kOk);
}

// More streams than are remembered: each is done before the next begins, but
// nobody asks.
TEST_P(StreamTrackerTest, StreamsThatCameAndWentAreForgotten) {
  const std::unique_ptr<StreamTracker> tracker = Track();
  const StreamHandle kept = MakeStream();
  const StreamToken old = MarkOn(*tracker, kept);
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken pending = MarkOn(*tracker, held.stream());
  for (int i = 0; i < 700; ++i) {
    const StreamHandle stream = MakeStream();
    const StreamToken token = MarkOn(*tracker, stream);
    ASSERT_EQ(device()->StreamSynchronize(stream), kOk);
    ASSERT_EQ(device()->StreamDestroy(stream), kOk);
    if (i % 3 == 0) {
      ASSERT_TRUE(IsDone(*tracker, token));
    }
  }
  FIRN_EXPECT_OK(tracker->CheckInvariants());
  EXPECT_LT(tracker->pending_streams(), 300u);
  EXPECT_TRUE(IsDone(*tracker, old));
  EXPECT_FALSE(IsDone(*tracker, pending));
  // And one that comes back is known anew, its old tokens done.
  const StreamToken again = MarkOn(*tracker, kept);
  EXPECT_EQ(again.stream_id, old.stream_id);
  EXPECT_GT(again.sequence, old.sequence);
  EXPECT_TRUE(IsDone(*tracker, old));
  FIRN_EXPECT_OK(Wait(*tracker, again));
  EXPECT_EQ(device()->StreamDestroy(kept), kOk);
}

TEST_P(StreamTrackerTest, ALostDeviceIsReported) {
  FaultingDriver faults(device());
  const std::unique_ptr<StreamTracker> tracker = Track({&faults});
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken token = MarkOn(*tracker, held.stream());
  faults.FailFrom(0, DriverResult::kIllegalAddress);
  EXPECT_THAT(tracker->IsDone(token), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(Wait(*tracker, token), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(tracker->Mark(held.stream()),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(StreamTracker::Create({&faults}, StreamTrackerOptions()),
              StatusIs(absl::StatusCode::kDataLoss));
  faults.Reset();
}

TEST_P(StreamTrackerTest, WorkThatDiesWithTheDeviceIsReported) {
  if (!OpensAfresh(devices().way)) {
    GTEST_SKIP() << "other tests need the device";
  }
  const std::unique_ptr<StreamTracker> tracker = Track();
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  DevicePtr nowhere = 0;
  const uint64_t bytes = devices().granule_bytes;
  ASSERT_EQ(device()->MemAddressReserve(&nowhere, bytes, bytes, 0, 0), kOk);
  std::function<void()> body = [] {};
  ASSERT_EQ(devices().launch_kernel(0, held.stream(),
                                    {KernelRange{nowhere, bytes, true}}, &body),
            kOk);
  const StreamToken token = MarkOn(*tracker, held.stream());
  EXPECT_FALSE(IsDone(*tracker, token));
  held.Release();
  EXPECT_THAT(Wait(*tracker, token), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(StreamTrackerOptionsTest, ATrackerNeedsADeviceAndAnEvent) {
  EXPECT_THAT(StreamTracker::Create({}, StreamTrackerOptions()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const std::unique_ptr<DeviceSet> devices = TestDevices();
  StreamTrackerOptions options;
  options.max_pending_events = 0;
  EXPECT_THAT(StreamTracker::Create({devices->drivers[0].get()}, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/seen_streams.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/stream_tracker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

// A driver from before there were unique ids of streams, if asked to be.
class DriverOfAnyAge : public DriverWrapper {
 public:
  using DriverWrapper::DriverWrapper;
  DriverResult StreamGetId(StreamHandle stream, uint64_t* id) override {
    if (!has_ids) return DriverResult::kNotSupported;
    return DriverWrapper::StreamGetId(stream, id);
  }
  bool has_ids = true;
};

class SeenStreamsTest : public ::testing::Test {
 protected:
  void Make(bool has_ids = true) {
    CpuDriverOptions options;
    options.storage = CpuStorage::kGhost;
    options.device_bytes = uint64_t{64} << 20;
    auto cpu = CpuDriver::Create(std::move(options));
    FIRN_ASSERT_OK(cpu.status());
    cpu_ = std::move(*cpu);
    faults_ = std::make_unique<FaultingDriver>(cpu_.get());
    driver_ = std::make_unique<DriverOfAnyAge>(faults_.get());
    driver_->has_ids = has_ids;
    auto tracker = StreamTracker::Create({driver_.get()}, {});
    FIRN_ASSERT_OK(tracker.status());
    tracker_ = std::move(*tracker);
    streams_ =
        std::make_unique<SeenStreams>(driver_.get(), tracker_.get(), [this] {
          ++waits_;
          return wait_result_;
        });
    for (StreamHandle* stream : {&first_, &second_}) {
      ASSERT_EQ(cpu_->StreamCreate(stream, kStreamNonBlocking),
                DriverResult::kSuccess);
    }
  }

  std::unique_ptr<CpuDriver> cpu_;
  std::unique_ptr<FaultingDriver> faults_;
  std::unique_ptr<DriverOfAnyAge> driver_;
  std::unique_ptr<StreamTracker> tracker_;
  std::unique_ptr<SeenStreams> streams_;
  int waits_ = 0;
  absl::Status wait_result_;
  StreamHandle first_ = nullptr;
  StreamHandle second_ = nullptr;
};

TEST_F(SeenStreamsTest, TheOnlyStreamIsReadyOnceItWasNamed) {
  Make();
  EXPECT_EQ(streams_->ReadyId(first_), 0u);
  EXPECT_EQ(streams_->ReadyId(nullptr), 0u);
  FIRN_ASSERT_OK(streams_->Note(first_, false));
  EXPECT_NE(streams_->ReadyId(first_), 0u);
  EXPECT_EQ(streams_->ReadyId(second_), 0u);
  EXPECT_EQ(streams_->ReadyId(nullptr), 0u);
  FIRN_ASSERT_OK(streams_->Note(first_, false));
  EXPECT_FALSE(streams_->are_many());
  EXPECT_EQ(waits_, 0);
}

TEST_F(SeenStreamsTest, TheDefaultStreamIsAStreamLikeOthers) {
  Make();
  FIRN_ASSERT_OK(streams_->Note(nullptr, false));
  EXPECT_NE(streams_->ReadyId(nullptr), 0u);
  EXPECT_FALSE(streams_->are_many());
  FIRN_ASSERT_OK(streams_->Note(first_, false));
  EXPECT_TRUE(streams_->are_many());
  EXPECT_NE(streams_->ReadyId(first_), 0u);
  EXPECT_NE(streams_->ReadyId(first_), streams_->ReadyId(nullptr));
}

TEST_F(SeenStreamsTest, TheSecondStreamWaitsOnce) {
  Make();
  FIRN_ASSERT_OK(streams_->Note(first_, false));
  FIRN_ASSERT_OK(streams_->Note(second_, false));
  EXPECT_TRUE(streams_->are_many());
  EXPECT_EQ(waits_, 1);
  EXPECT_NE(streams_->ReadyId(first_), streams_->ReadyId(second_));
  for (const StreamHandle stream : {first_, second_, StreamHandle{nullptr}}) {
    FIRN_ASSERT_OK(streams_->Note(stream, false));
    EXPECT_NE(streams_->ReadyId(stream), 0u);
  }
  EXPECT_EQ(waits_, 1);
}

TEST_F(SeenStreamsTest, AThirdStreamIsReadyOnceItWasNamed) {
  Make();
  FIRN_ASSERT_OK(streams_->Note(nullptr, false));
  FIRN_ASSERT_OK(streams_->Note(first_, false));
  FIRN_ASSERT_OK(streams_->Note(second_, false));
  EXPECT_NE(streams_->ReadyId(second_), 0u);
  EXPECT_EQ(waits_, 1);
}

TEST_F(SeenStreamsTest, AWaitThatFailsChangesNothing) {
  Make();
  FIRN_ASSERT_OK(streams_->Note(first_, false));
  wait_result_ = absl::ResourceExhaustedError("may not wait");
  EXPECT_THAT(streams_->Note(second_, false),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_FALSE(streams_->are_many());
  EXPECT_EQ(streams_->ReadyId(second_), 0u);
  EXPECT_NE(streams_->ReadyId(first_), 0u);
  wait_result_ = absl::OkStatus();
  FIRN_ASSERT_OK(streams_->Note(second_, false));
  EXPECT_TRUE(streams_->are_many());
  EXPECT_EQ(waits_, 2);
}

TEST_F(SeenStreamsTest, ScopesMakeThemManyFromTheFirst) {
  Make();
  FIRN_ASSERT_OK(streams_->Note(first_, false));
  FIRN_ASSERT_OK(streams_->Note(first_, /*in_scopes=*/true));
  EXPECT_TRUE(streams_->are_many());
  EXPECT_EQ(waits_, 1);
}

TEST_F(SeenStreamsTest, WithoutIdsOnlyTheDefaultStreamIsCertain) {
  Make(/*has_ids=*/false);
  FIRN_ASSERT_OK(streams_->Note(nullptr, false));
  EXPECT_FALSE(streams_->are_many());
  EXPECT_NE(streams_->ReadyId(nullptr), 0u);
  // Its handle may be another's tomorrow.
  FIRN_ASSERT_OK(streams_->Note(first_, false));
  EXPECT_TRUE(streams_->are_many());
  EXPECT_EQ(streams_->ReadyId(first_), 0u);
}

TEST_F(SeenStreamsTest, AStreamOfTheSameHandleIsAnotherStream) {
  Make();
  FIRN_ASSERT_OK(streams_->Note(first_, false));
  const uint64_t id = streams_->ReadyId(first_);
  FIRN_ASSERT_OK(streams_->Note(second_, false));
  ASSERT_EQ(cpu_->StreamDestroy(first_), DriverResult::kSuccess);
  ASSERT_EQ(cpu_->StreamCreate(&first_, kStreamNonBlocking),
            DriverResult::kSuccess);
  EXPECT_NE(streams_->ReadyId(first_), id);
}

TEST_F(SeenStreamsTest, NoStreamAtAllIsRefused) {
  Make();
  int no_stream = 0;
  const StreamHandle stream = reinterpret_cast<StreamHandle>(&no_stream);
  EXPECT_THAT(streams_->Note(stream, false),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(
      streams_->RefuseCapturing(stream),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stream")));
  EXPECT_EQ(streams_->ReadyId(stream), 0u);
  EXPECT_FALSE(streams_->are_many());
  FIRN_ASSERT_OK(streams_->Note(first_, false));
  EXPECT_FALSE(streams_->are_many());
}

TEST_F(SeenStreamsTest, ACapturingStreamIsRefusedUntilTheCaptureEnds) {
  Make();
  FIRN_EXPECT_OK(streams_->RefuseCapturing(first_));
  ASSERT_EQ(cpu_->StreamBeginCapture(first_, CaptureMode::kRelaxed),
            DriverResult::kSuccess);
  EXPECT_THAT(
      streams_->RefuseCapturing(first_),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("capturing")));
  FIRN_EXPECT_OK(streams_->RefuseCapturing(second_));
  GraphHandle graph = nullptr;
  ASSERT_EQ(cpu_->StreamEndCapture(first_, &graph), DriverResult::kSuccess);
  FIRN_EXPECT_OK(streams_->RefuseCapturing(first_));
  EXPECT_EQ(cpu_->GraphDestroy(graph), DriverResult::kSuccess);
}

}  // namespace
}  // namespace firn

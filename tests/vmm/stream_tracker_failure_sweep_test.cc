// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every driver call that a tracker makes fails in turn: no token is reported
// early, a retry succeeds, and nothing is left.

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/stream_tracker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/stream_tracker_scene.h"

namespace firn::testing {
namespace {

class StreamTrackerFailureSweepTest
    : public StreamTrackerScene,
      public ::testing::WithParamInterface<bool> {
 protected:
  StreamTrackerFailureSweepTest() {
    options_.value_writes = GetParam();
    options_.max_pending_events = 2;
  }

  // Makes the call that is swept until it succeeds: twice at most. A failure
  // leaves the books right.
  template <typename Call>
  static auto Retried(const StreamTracker& tracker, const Call& call) {
    auto result = call();
    if (!result.ok()) {
      FIRN_EXPECT_OK(tracker.CheckInvariants());
      result = call();
    }
    EXPECT_THAT(result, IsOk());
    return result;
  }

  StreamTrackerOptions options_;
};

INSTANTIATE_TEST_SUITE_P(EachKind, StreamTrackerFailureSweepTest,
                         ::testing::Bool(), [](const auto& info) {
                           return info.param ? "Values" : "Events";
                         });

TEST_P(StreamTrackerFailureSweepTest, ATrackerThatCannotBeMadeLeavesNothing) {
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    LedgerDriver ledger(device());
    FaultingDriver faults(&ledger);
    faults.FailNth(n, DriverResult::kUnknown);
    auto tracker = StreamTracker::Create({&faults}, options_);
    const bool failed = faults.failures() != 0;
    faults.Reset();
    if (tracker.ok()) {
      FIRN_EXPECT_OK((*tracker)->CheckInvariants());
      FIRN_EXPECT_OK(Wait(**tracker, MarkOn(**tracker, nullptr)));
      tracker->reset();
    } else {
      EXPECT_TRUE(failed) << tracker.status();
    }
    ASSERT_TRUE(ledger.empty()) << ledger.Describe();
    if (!failed) return;
  }
}

// Three tokens on a held stream, one more than there are events for.
TEST_P(StreamTrackerFailureSweepTest, NoTokenIsReportedEarlyAndARetrySucceeds) {
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    LedgerDriver ledger(device());
    FaultingDriver faults(&ledger);
    bool failed = false;
    {
      std::unique_ptr<StreamTracker> tracker = Track(options_, {&faults});
      HeldStream held(device());
      ASSERT_EQ(held.Hold(), kOk);
      faults.Reset();
      faults.FailNth(n, DriverResult::kUnknown);
      StreamToken last;
      for (int i = 0; i < 3; ++i) {
        const auto token =
            Retried(*tracker, [&] { return tracker->Mark(held.stream()); });
        ASSERT_GT(token->sequence, last.sequence);
        last = *token;
        FIRN_EXPECT_OK(tracker->CheckInvariants());
        const auto done =
            Retried(*tracker, [&] { return tracker->IsDone(last); });
        ASSERT_FALSE(*done);
      }
      FIRN_EXPECT_OK(
          Retried(*tracker, [&] { return tracker->Identify(held.stream()); }));
      EXPECT_EQ(tracker->marks_total(), 3u);
      held.Release();
      absl::Status waited = Wait(*tracker, last);
      if (!waited.ok()) waited = Wait(*tracker, last);
      FIRN_EXPECT_OK(waited);
      FIRN_EXPECT_OK(tracker->CheckInvariants());
      EXPECT_EQ(tracker->pending_streams(), 0u);
      // A fourth one, with what is there again.
      const auto token =
          Retried(*tracker, [&] { return tracker->Mark(held.stream()); });
      failed = faults.failures() != 0;
      faults.Reset();
      FIRN_EXPECT_OK(Wait(*tracker, *token));
    }
    ASSERT_TRUE(ledger.empty()) << ledger.Describe();
    if (!failed || HasFailure()) return;
  }
}

TEST_P(StreamTrackerFailureSweepTest, ALossAtAnyCallIsReportedAndSurvived) {
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    LedgerDriver ledger(device());
    FaultingDriver faults(&ledger);
    faults.FailFrom(n, DriverResult::kIllegalAddress);
    {
      auto tracker = StreamTracker::Create({&faults}, options_);
      absl::Status status = tracker.status();
      if (status.ok()) {
        auto token = (*tracker)->Mark(nullptr);
        status = token.ok() ? Wait(**tracker, *token) : token.status();
        FIRN_EXPECT_OK((*tracker)->CheckInvariants());
        // What is known to be done stays so; the next call tells.
        if (status.ok() && faults.failures() != 0) {
          status = (*tracker)->Mark(nullptr).status();
        }
      }
      if (faults.failures() != 0) {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss));
      } else {
        FIRN_EXPECT_OK(status);
      }
    }
    const bool failed = faults.failures() != 0;
    faults.Reset();
    if (failed) ledger.CleanUp();
    ASSERT_TRUE(ledger.empty()) << ledger.Describe();
    if (!failed || HasFailure()) return;
  }
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/trace_summary.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/bench/replay/event_list.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

TEST(TraceSummaryTest, FindsPeakEventsAndTimes) {
  EventList trace({Alloc(5, 0, 100), Alloc(6, 1, 50), Free(7, 0, 100), Probe(8),
                   Alloc(9, 0, 90), Free(11, 1, 50)});
  for (int pass = 0; pass < 2; ++pass) {
    FIRN_ASSERT_OK_AND_ASSIGN(const TraceSummary summary,
                              SummarizeTrace(&trace));
    EXPECT_EQ(summary.events, 5u);
    EXPECT_EQ(summary.peak_live_bytes, 150u);
    EXPECT_EQ(summary.first_time_us, 5);
    EXPECT_EQ(summary.last_time_us, 11);
  }
}

TEST(TraceSummaryTest, ReturnsTheTracesError) {
  EventList trace({Alloc(5, 0, 100)}, absl::InvalidArgumentError("line 2"));
  EXPECT_THAT(SummarizeTrace(&trace),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, "line 2"));
}

}  // namespace
}  // namespace firn::bench

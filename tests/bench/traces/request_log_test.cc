// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/request_log.h"

#include <vector>

#include "bench/traces/clock_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::testing::ElementsAre;

constexpr double kDayUs = static_cast<double>(kUsPerDay);

std::vector<int64_t> Times(RequestLog* log) {
  std::vector<int64_t> times_us;
  Request request;
  while (*log->Next(&request)) times_us.push_back(request.time_us);
  return times_us;
}

std::vector<Request> EveryMinute(int64_t count) {
  std::vector<Request> log;
  for (int64_t i = 0; i < count; ++i) {
    log.push_back({i * 60 * kUsPerSecond, static_cast<uint32_t>(i), 1});
  }
  return log;
}

TEST(RequestLogTest, SortsByTimeAndStartsAtZero) {
  RequestLog log({{5'000'000, 1, 1}, {2'000'000, 2, 2}}, 3.5 / 86400, 1);
  Request request;
  ASSERT_TRUE(*log.Next(&request));
  EXPECT_EQ(request.time_us, 0);
  EXPECT_EQ(request.context_tokens, 2u);
  ASSERT_TRUE(*log.Next(&request));
  EXPECT_EQ(request.time_us, 3'000'000);
  EXPECT_EQ(request.context_tokens, 1u);
  EXPECT_FALSE(*log.Next(&request));
  EXPECT_FALSE(*log.Next(&request));
}

TEST(RequestLogTest, CutsALongerLogWithoutSwing) {
  RequestLog log(EveryMinute(100), 2.5 / 1440, 1);
  EXPECT_THAT(Times(&log), ElementsAre(0, 60'000'000, 120'000'000));
}

TEST(RequestLogTest, DilatesTimes) {
  RequestLog log(EveryMinute(100), 2.5 / 1440, 2);
  EXPECT_THAT(Times(&log), ElementsAre(0, 120'000'000));
}

TEST(RequestLogTest, PlaysAShorterLogAgainAMeanGapAfterItsLastRequest) {
  // One request a minute whichever way the log is cut.
  RequestLog once(EveryMinute(1000), 2, 1);
  RequestLog again(EveryMinute(7), 2, 1);
  EXPECT_EQ(Times(&once), Times(&again));
}

TEST(RequestLogTest, TheRateSwingsBetweenTheLogsOwnAndATwentiethOfIt) {
  RequestLog log(EveryMinute(60), 2, 1);
  std::vector<int> per_hour(48, 0);
  for (const int64_t time_us : Times(&log)) {
    ++per_hour[static_cast<size_t>(time_us / kUsPerHour)];
  }
  EXPECT_NEAR(per_hour[0], 35, 2);
  EXPECT_NEAR(per_hour[6], 60, 1);
  EXPECT_NEAR(per_hour[12], 28, 2);
  EXPECT_NEAR(per_hour[18], 3, 1);
  for (size_t hour = 0; hour < 24; ++hour) {
    EXPECT_NEAR(per_hour[hour], per_hour[hour + 24], 1);
  }
}

TEST(RequestLogTest, RewindPlaysTheSameAgain) {
  RequestLog log(EveryMinute(7), 1.3, 1.7);
  const std::vector<int64_t> times_us = Times(&log);
  EXPECT_GT(times_us.size(), 100u);
  FIRN_ASSERT_OK(log.Rewind());
  EXPECT_EQ(Times(&log), times_us);
}

TEST(RequestLogTest, ALogOfOneMomentComesOnceASecond) {
  RequestLog log({{7, 1, 1}, {7, 2, 2}}, 0.5 / 86400, 1);
  EXPECT_THAT(Times(&log), ElementsAre(0, 0));
}

TEST(SwungTimeTest, RisesAndKeepsWholeDays) {
  double last_us = -1;
  for (double steady_us = 0; steady_us < kDayUs; steady_us += kDayUs / 1000) {
    const double time_us = SwungTime(steady_us);
    EXPECT_GT(time_us, last_us);
    last_us = time_us;
  }
  for (const double days : {1.0, 2.0, 17.0}) {
    EXPECT_NEAR(SwungTime(days * 0.525 * kDayUs), days * kDayUs, 100);
  }
}

}  // namespace
}  // namespace firn::bench

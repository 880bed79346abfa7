// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/request_log.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bench/traces/clock_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;

constexpr double kDayUs = static_cast<double>(kUsPerDay);

std::vector<int64_t> Times(RequestLog* log) {
  std::vector<int64_t> times_us;
  Request request;
  while (*log->Next(&request)) times_us.push_back(request.time_us);
  return times_us;
}

std::unique_ptr<RequestLog> Log(std::vector<Request> rows, double days,
                                double dilate) {
  absl::StatusOr<std::unique_ptr<RequestLog>> log = RequestLog::Create(
      std::make_unique<ListedRequests>(std::move(rows)), days, dilate);
  EXPECT_TRUE(log.ok()) << log.status();
  return *std::move(log);
}

std::vector<Request> EveryMinute(int64_t count) {
  std::vector<Request> log;
  for (int64_t i = 0; i < count; ++i) {
    Request request;
    request.time_us = i * 60 * kUsPerSecond;
    request.context_tokens = static_cast<uint32_t>(i);
    request.generated_tokens = 1;
    log.push_back(request);
  }
  return log;
}

TEST(RequestLogTest, StartsAtZeroAndATimeThatFallsStandsStill) {
  const std::unique_ptr<RequestLog> log =
      Log({{2'000'000, 2, 2}, {5'000'000, 1, 1}, {4'000'000, 3, 3}},
          4.0 / 86400, 1);
  EXPECT_THAT(Times(log.get()), ElementsAre(0, 3'000'000, 3'000'000));
  Request request;
  EXPECT_FALSE(*log->Next(&request));
}

TEST(RequestLogTest, NamesOfPrefixPiecesDifferFromRoundToRound) {
  const std::unique_ptr<RequestLog> log =
      Log({{0, 600, 1, {4, 7}, 512}, {1'000'000, 100, 1, {4}, 512}},
          3.9 / 86400, 1);
  std::vector<std::vector<uint64_t>> pieces;
  Request request;
  while (*log->Next(&request)) pieces.push_back(request.prefix_pieces);
  ASSERT_GE(pieces.size(), 3u);
  EXPECT_THAT(pieces[0], ElementsAre(4, 7));
  EXPECT_THAT(pieces[1], ElementsAre(4));
  EXPECT_THAT(pieces[2], ElementsAre(12, 15));
}

TEST(RequestLogTest, ReturnsTheErrorOfItsRows) {
  class Broken : public RequestSource {
   public:
    absl::StatusOr<bool> Next(Request*) override {
      return absl::InvalidArgumentError("line 7");
    }
    absl::Status Rewind() override { return absl::OkStatus(); }
  };
  EXPECT_THAT(RequestLog::Create(std::make_unique<Broken>(), 1, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, "line 7"));
}

TEST(RequestLogTest, CutsALongerLogWithoutSwing) {
  const std::unique_ptr<RequestLog> log = Log(EveryMinute(100), 2.5 / 1440, 1);
  EXPECT_THAT(Times(log.get()), ElementsAre(0, 60'000'000, 120'000'000));
}

TEST(RequestLogTest, DilatesTimes) {
  const std::unique_ptr<RequestLog> log = Log(EveryMinute(100), 2.5 / 1440, 2);
  EXPECT_THAT(Times(log.get()), ElementsAre(0, 120'000'000));
}

TEST(RequestLogTest, PlaysAShorterLogAgainAMeanGapAfterItsLastRequest) {
  // One request a minute whichever way the log is cut.
  const std::unique_ptr<RequestLog> once = Log(EveryMinute(1000), 2, 1);
  const std::unique_ptr<RequestLog> again = Log(EveryMinute(7), 2, 1);
  EXPECT_EQ(Times(once.get()), Times(again.get()));
}

TEST(RequestLogTest, TheRateSwingsBetweenTheLogsOwnAndATwentiethOfIt) {
  const std::unique_ptr<RequestLog> log = Log(EveryMinute(60), 2, 1);
  std::vector<int> per_hour(48, 0);
  for (const int64_t time_us : Times(log.get())) {
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
  const std::unique_ptr<RequestLog> log = Log(EveryMinute(7), 1.3, 1.7);
  const std::vector<int64_t> times_us = Times(log.get());
  EXPECT_GT(times_us.size(), 100u);
  FIRN_ASSERT_OK(log->Rewind());
  EXPECT_EQ(Times(log.get()), times_us);
}

TEST(RequestLogTest, ALogOfOneMomentComesOnceASecond) {
  const std::unique_ptr<RequestLog> log =
      Log({{7, 1, 1}, {7, 2, 2}}, 0.5 / 86400, 1);
  EXPECT_THAT(Times(log.get()), ElementsAre(0, 0));
}

TEST(RequestLogTest, AShorterLogThanASecondComesOnceASecondAtTheMost) {
  const std::unique_ptr<RequestLog> log =
      Log({{0, 1, 1}, {1, 1, 1}}, 1.0 / 24, 1);
  // An hour at little more than half the rate (0.59 of it).
  EXPECT_NEAR(static_cast<double>(Times(log.get()).size()), 2 * 0.59 * 3600,
              100);
  const std::unique_ptr<RequestLog> dilated =
      Log({{0, 1, 1}, {1'000'000, 1, 1}}, 1.0 / 24, 1e-3);
  EXPECT_NEAR(static_cast<double>(Times(dilated.get()).size()), 2 * 0.59 * 3600,
              100);
}

TEST(RequestLogTest, TheSwingsDayIsTheTracesWhateverTheDilation) {
  // Dilated by 2, a request a minute comes each 2 minutes at 6 h.
  const std::unique_ptr<RequestLog> log = Log(EveryMinute(60), 1, 2);
  std::vector<int> per_hour(24, 0);
  for (const int64_t time_us : Times(log.get())) {
    ++per_hour[static_cast<size_t>(time_us / kUsPerHour)];
  }
  EXPECT_NEAR(per_hour[6], 30, 1);
  EXPECT_NEAR(per_hour[18], 1.5, 1);
}

TEST(SwungTimeTest, RisesAndKeepsWholeDays) {
  double last_us = -1;
  for (double steady_us = 0; steady_us < kDayUs; steady_us += kDayUs / 1000) {
    const double time_us = SwungTime(steady_us);
    EXPECT_GT(time_us, last_us);
    for (const double near_us : {last_us, time_us, kDayUs, 0.7 * kDayUs}) {
      EXPECT_EQ(SwungTime(steady_us, near_us), time_us);
    }
    last_us = time_us;
  }
  for (const double days : {1.0, 2.0, 17.0}) {
    EXPECT_NEAR(SwungTime(days * 0.525 * kDayUs), days * kDayUs, 100);
  }
}

}  // namespace
}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/usage_series.h"

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_path.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kIntervalUs = 3'600'000'000;  // an hour
constexpr int64_t kEndUs = UsageSeries::kIntervals * kIntervalUs;

MemoryState State(uint64_t live, uint64_t used, uint64_t held) {
  return {live, used, held, 0};
}

std::vector<std::string> LinesOf(const UsageSeries& series) {
  return absl::StrSplit(series.ToCsv(), '\n', absl::SkipEmpty());
}

TEST(UsageSeriesTest, EachIntervalHasItsMean) {
  UsageSeries series(0, kEndUs);
  series.Record(0, State(100, 200, 400));
  series.Record(kIntervalUs / 2, State(300, 400, 400));
  series.Record(kEndUs, State(0, 0, 0));
  const std::vector<std::string> lines = LinesOf(series);
  ASSERT_EQ(lines.size(), 1u + UsageSeries::kIntervals);
  EXPECT_EQ(lines[0], "hours,live_bytes,used_bytes,held_bytes");
  EXPECT_EQ(lines[1], "0.5000,200,300,400");
  EXPECT_EQ(lines[2], "1.5000,300,400,400");
  EXPECT_EQ(lines.back(), "287.5000,300,400,400");
}

TEST(UsageSeriesTest, TimesCountFromTheFirstEvent) {
  constexpr int64_t kFirstUs = 12345;
  UsageSeries series(kFirstUs, kFirstUs + kEndUs);
  series.Record(kFirstUs, State(1, 2, 3));
  series.Record(kFirstUs + kIntervalUs, State(4, 5, 6));
  series.Record(kFirstUs + 2 * kIntervalUs, State(0, 0, 0));
  EXPECT_THAT(LinesOf(series),
              ElementsAre("hours,live_bytes,used_bytes,held_bytes",
                          "0.5000,1,2,3", "1.5000,4,5,6"));
}

TEST(UsageSeriesTest, ATraceWithoutTimeHasNoIntervals) {
  UsageSeries series(7, 7);
  series.Record(7, State(1, 2, 3));
  series.Record(7, State(4, 5, 6));
  EXPECT_THAT(LinesOf(series),
              ElementsAre("hours,live_bytes,used_bytes,held_bytes"));
}

TEST(UsageSeriesTest, TheFileHoldsWhatWasRecorded) {
  UsageSeries series(0, kEndUs);
  series.Record(0, State(1, 2, 3));
  series.Record(kEndUs, State(0, 0, 0));
  const std::string path = ::firn::testing::TemporaryPath("usage_series.csv");
  FIRN_ASSERT_OK(WriteUsageSeries(series, path));
  std::ostringstream contents;
  contents << std::ifstream(path).rdbuf();
  EXPECT_EQ(contents.str(), series.ToCsv());
}

TEST(UsageSeriesTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_THAT(WriteUsageSeries(UsageSeries(0, 1), "/nowhere/series.csv"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("--usage_series: '/nowhere/series.csv'")));
}

}  // namespace
}  // namespace firn::bench

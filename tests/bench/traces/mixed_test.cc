// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/mixed.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/generator_testing.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kHourUs = int64_t{3600} * 1'000'000;
constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(MixedTest, LiveBytesSwingWithTheHourOfTheDay) {
  double live = 0;
  double night = 0;
  double noon = 0;
  uint64_t night_states = 0;
  uint64_t noon_states = 0;
  for (const TraceEvent& event : EventsOf("gen:mixed,days=1,live=4GiB")) {
    live += event.kind == TraceEventKind::kAllocate
                ? static_cast<double>(event.bytes)
                : -static_cast<double>(event.bytes);
    const int64_t hour = event.time_us / kHourUs;
    if (hour >= 11 && hour < 14) {
      noon += live;
      ++noon_states;
    } else if (hour >= 22) {
      night += live;
      ++night_states;
    }
  }
  EXPECT_EQ(live, 0);
  noon /= static_cast<double>(noon_states);
  night /= static_cast<double>(night_states);
  EXPECT_GT(noon, 0.6 * 4096 * kMiB);
  EXPECT_LT(noon, 1.4 * 4096 * kMiB);
  EXPECT_LT(night, 0.7 * noon);
}

TEST(MixedTest, HasBlocksOfEachBandThatLiveForMinutesOrHours) {
  std::map<uint64_t, int64_t> born;  // by id
  uint64_t blocks = 0;
  uint64_t large = 0;
  uint64_t medium = 0;
  uint64_t hours = 0;
  for (const TraceEvent& event : EventsOf("gen:mixed,days=1,live=64GiB")) {
    if (event.kind == TraceEventKind::kAllocate) {
      born[event.id] = event.time_us;
      EXPECT_GE(event.bytes, 512u);
      EXPECT_LE(event.bytes, 512 * kMiB);
      ++blocks;
      large += event.bytes >= 64 * kMiB ? 1 : 0;
      medium += event.bytes >= kMiB && event.bytes < 64 * kMiB ? 1 : 0;
    } else if (event.time_us - born[event.id] > kHourUs) {
      ++hours;
    }
  }
  // A share of the live bytes over the mean size tells how many there are.
  EXPECT_GT(medium, 10 * large);
  EXPECT_GT(large, 1000u);
  EXPECT_GT(blocks - medium - large, 10 * medium);
  // A tenth live for two hours in the mean: of these exp(-1/2) for one.
  EXPECT_GT(hours, blocks / 20);
  EXPECT_LT(hours, blocks / 14);
}

TEST(MixedTest, RefusesKeysThatMakeNoSense) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(OpenTrace("gen:mixed,days=0"),
              StatusIs(kInvalid, HasSubstr("days")));
  EXPECT_THAT(OpenTrace("gen:mixed,live=1KiB"),
              StatusIs(kInvalid, HasSubstr("live")));
  EXPECT_THAT(OpenTrace("gen:mixed,min=1KiB"),
              StatusIs(kInvalid, HasSubstr("min")));
}

}  // namespace
}  // namespace firn::bench

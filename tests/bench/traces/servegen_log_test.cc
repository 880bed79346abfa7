// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_log.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/servegen_testing.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// 6000 requests of 5 or 6 blocks (70 + 10 or 20 tokens) an hour.
std::string SmallFolder() {
  return WriteServeGenFolder({
      {"chunk-0-trace.csv", "0,1,2,Gamma,1,1\n1800,2,1,Weibull,1,1\n"},
      {"chunk-0-dataset.json", LengthsFile("70: 1", "10: 0.5, 20: 0.5")},
  });
}

std::vector<TraceEvent> EventsOf(const std::string& spec) {
  absl::StatusOr<std::unique_ptr<TraceSource>> trace = OpenTrace(spec);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? Gather(trace->get()) : std::vector<TraceEvent>();
}

TEST(ServeGenLogTest, IsKvTrafficOfItsRequests) {
  // An hour: 1800 requests, then 3600.
  const std::vector<TraceEvent> events =
      EventsOf(SmallFolder() + ",days=0.0416667,retain=0,block_bytes=64KiB");
  const TraceTotals totals = TotalsOf(events);
  EXPECT_NEAR(static_cast<double>(totals.allocs), 5400 * 5.5, 200);
  EXPECT_EQ(totals.frees, totals.allocs);
  EXPECT_EQ(totals.end_live_bytes, 0u);
}

TEST(ServeGenLogTest, IsTheSameForASeed) {
  const std::string spec = SmallFolder() + ",days=0.0416667,seed=";
  const std::vector<TraceEvent> events = EventsOf(spec + "5");
  EXPECT_TRUE(EventsOf(spec + "5") == events);
  EXPECT_FALSE(EventsOf(spec + "6") == events);
}

TEST(ServeGenLogTest, EventsAreReachedAndAsManyRequestsOverlap) {
  const std::string spec = SmallFolder() + ",days=1,decode_tps=0.2,retain=0";
  const TraceTotals whole = TotalsOf(EventsOf(spec));
  ASSERT_GT(whole.allocs, 400'000u);
  const TraceTotals part = TotalsOf(EventsOf(spec + ",events=200K"));
  EXPECT_NEAR(static_cast<double>(part.allocs + part.frees), 200'000, 4'000);
  EXPECT_NEAR(static_cast<double>(part.most_live_blocks),
              static_cast<double>(whole.most_live_blocks),
              0.1 * static_cast<double>(whole.most_live_blocks));
  // More than there are: all.
  const TraceTotals all = TotalsOf(EventsOf(spec + ",events=20M"));
  EXPECT_EQ(all.allocs, whole.allocs);
}

TEST(ServeGenLogTest, NamesAnUnknownKeyAndABadFile) {
  const std::string folder = SmallFolder();
  EXPECT_THAT(OpenTrace(folder + ",loops=2"),
              StatusIs(kInvalid, HasSubstr("unknown key 'loops'; the keys of a "
                                           "ServeGen folder are layout")));
  EXPECT_THAT(
      OpenTrace(WriteServeGenFolder({{"chunk-0-trace.csv", "0,1,1,Cauchy,1,1"},
                                     {"chunk-0-dataset.json", "{}"}})),
      StatusIs(kInvalid, HasSubstr("/chunk-0-trace.csv:1: distribution: "
                                   "'Cauchy' is no known distribution")));
}

TEST(ServeGenLogTest, WindowsWithoutEndAreAnError) {
  const std::string folder = WriteServeGenFolder({
      {"chunk-0-trace.csv", "0,1e-300,1,Gamma,1,1\n1,1e-300,1,Gamma,1,1\n"},
      {"chunk-0-dataset.json", LengthsFile("1: 1", "1: 1")},
  });
  EXPECT_THAT(
      OpenTrace(folder + ",days=1000,dilate=0.001"),
      StatusIs(kInvalid,
               folder + ": days=1000 and dilate=0.001 play 8.64e+10 of the "
                        "clients' windows; at most 1e+08, so give fewer days "
                        "or a larger dilate"));
  EXPECT_TRUE(EventsOf(folder + ",days=0.1").empty());
}

TEST(ServeGenLogTest, FourteenDaysOfTheRealFolderComeDownToTheEventsAskedFor) {
  FIRN_PUBLIC_TRACE_OR_SKIP(path, "servegen/language/m-small");
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            OpenTrace(path + ",days=14,events=1M"));
  const std::vector<TraceEvent> events = Gather(trace.get());
  EXPECT_NEAR(static_cast<double>(events.size()), 1e6, 5e4);
  EXPECT_GT(events.back().time_us, int64_t{14} * 86'390 * 1'000'000);
  EXPECT_LT(events.back().time_us, int64_t{14} * 86'400 * 1'000'000);
}

}  // namespace
}  // namespace firn::bench

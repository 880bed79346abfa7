// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_rates.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr size_t kManyWindows = 1000;

TEST(ServeGenRatesTest, ReadsWindowsUpToTheNextOne) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::vector<RateWindow> windows,
      ReadServeGenRates(WriteFile("f",
                                  "600,0.5,2,Gamma,0.25,8\n"
                                  "1200,0,0,,0,0\n"
                                  "1260,1.5,3,Weibull,0.4,1.7\n"),
                        kManyWindows));
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[0].start_s, 600);
  EXPECT_EQ(windows[0].end_s, 1200);
  EXPECT_EQ(windows[0].requests, 300);
  EXPECT_EQ(windows[1].end_s, 1260);
  EXPECT_EQ(windows[1].requests, 0);
  EXPECT_EQ(windows[2].end_s, 1320) << "as long as the one before";
  EXPECT_EQ(windows[2].requests, 90);
}

TEST(ServeGenRatesTest, AnOnlyWindowHasTenMinutes) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::vector<RateWindow> windows,
      ReadServeGenRates(WriteFile("f", "0,0.5,1,Exponential,0,0"),
                        kManyWindows));
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].end_s, 600);
  EXPECT_EQ(windows[0].requests, 300);
}

TEST(ServeGenRatesTest, EachBadFileIsOneLineThatNamesLineAndField) {
  struct Case {
    std::string contents;
    const char* message;
  };
  const std::string good = "0,1,1,Gamma,1,1\n";
  for (const Case& c : {
           Case{"", ": no window; one line a window is expected"},
           Case{"\n\n", ": no window; one line a window is expected"},
           Case{"0,1,1,Gamma,1\n", ":1: 5 fields; 6 are expected: the window"},
           Case{good + "600,1,1,Gamma,1,1,1\n", ":2: 7 fields; 6 are expected"},
           Case{"t,rate,cv,distribution,a,b\n",
                ":1: start: 't' is not a number"},
           Case{"0,-1,1,Gamma,1,1\n", ":1: rate: '-1' is negative"},
           Case{"0,1e7,1,Gamma,1,1\n",
                ":1: rate: '1e7' is out of range; at most 1e+06"},
           Case{"0,1e6,1,Gamma,1,1\n",
                ":1: the window from 0 s has 6e+08 requests; at most 1e+07"},
           Case{"\n0,1e6,1,Gamma,1,1\n\n600,1,1,Gamma,1,1\n",
                ":2: the window from 0 s has 6e+08 requests; at most 1e+07"},
           Case{good + "600,1e6,1,Gamma,1,1\n\n",
                ":2: the window from 600 s has 6e+08 requests"},
           Case{std::string(1'000'001, '\n'),
                ":1000001: more than 1000000 characters of blank lines"},
           Case{"0,,1,Gamma,1,1\n", ":1: rate: empty"},
           Case{"0,1,nan,Gamma,1,1\n", ":1: CV: 'nan' is not a number"},
           Case{"0,1,-1,Gamma,1,1\n", ":1: CV: '-1' is negative"},
           Case{"0,1,1e5,Gamma,1,1\n", ":1: CV: '1e5' is out of range"},
           Case{"0,1,1,Pareto,1,1\n",
                ":1: distribution: 'Pareto' is no known distribution"},
           Case{"0,1,1,,1,1\n", ":1: distribution: '' is no known"},
           Case{"0,1,1,Gamma,x,1\n", ":1: argument 1: 'x' is not a number"},
           Case{"0,1,1,Gamma,1,\n", ":1: argument 2: empty"},
           Case{good + good, ":2: start: 0 s after one of 0 s; 1 to 86400 s"},
           Case{good + "100000,1,1,Gamma,1,1\n",
                ":2: start: 100000 s after one of 0 s; 1 to 86400 s later"},
           Case{good + "600,1,1,Gamma,1,1\n" + "1200,1,1,Gamma,1,1\n",
                ":3: too many windows in all"},
           Case{std::string(100'000, '1'), ":1: a line of more than 65536"},
       }) {
    const std::string path = WriteFile("f", c.contents);
    EXPECT_THAT(
        ReadServeGenRates(path, 2),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(StartsWith(path + c.message), Not(HasSubstr("\n")))));
  }
}

}  // namespace
}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_arrivals.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/servegen_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::testing::Each;
using ::testing::Ge;
using ::testing::Lt;

constexpr double kNoEnd = 1e12;

// A folder with the one client 0.
ServeGenFolder OneClient(const std::string& rates, const std::string& lengths) {
  absl::StatusOr<ServeGenFolder> folder =
      ReadServeGenFolder(WriteServeGenFolder(
          {{"chunk-0-trace.csv", rates}, {"chunk-0-dataset.json", lengths}}));
  EXPECT_TRUE(folder.ok()) << folder.status();
  return folder.ok() ? *std::move(folder) : ServeGenFolder();
}

ServeGenArrivals ArrivalsOf(const ServeGenFolder& folder, double end_s,
                            double share = 1, uint64_t seed = 1) {
  return ServeGenArrivals(&folder.clients[0], folder.span_s, end_s, share,
                          seed);
}

// The times of all requests that come before `before_s`.
std::vector<double> TimesBefore(double before_s, ServeGenArrivals* arrivals) {
  std::vector<double> times;
  while (arrivals->Next() && arrivals->time_s() < before_s) {
    times.push_back(arrivals->time_s());
  }
  return times;
}

double CvOfGaps(const std::vector<double>& times) {
  const double gaps = static_cast<double>(times.size() - 1);
  const double mean = (times.back() - times.front()) / gaps;
  double squares = 0;
  for (size_t i = 1; i < times.size(); ++i) {
    squares += std::pow(times[i] - times[i - 1] - mean, 2);
  }
  return std::sqrt(squares / gaps) / mean;
}

TEST(ServeGenArrivalsTest, AWindowHasTheRequestsOfItsRateWithinItsTime) {
  const ServeGenFolder folder = OneClient(
      "0,0.5,3,Gamma,1,1\n600,0,0,,0,0\n1200,0.25,2,Weibull,1,1\n"
      "1800,0.1,0,Gamma,1,1\n2400,0.2,1,Exponential,1,1\n",
      LengthsFile("1: 1", "1: 1"));
  for (const uint64_t seed : {1u, 2u, 3u}) {
    ServeGenArrivals arrivals = ArrivalsOf(folder, 3000, 1, seed);
    const std::vector<double> times = TimesBefore(kNoEnd, &arrivals);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    std::vector<size_t> counts(5);
    for (const double time : times) {
      // One at the very end of a window belongs to it.
      ++counts[static_cast<size_t>(std::min(time, 2999.) / 600)];
    }
    EXPECT_EQ(counts, (std::vector<size_t>{300, 0, 150, 60, 120}));
  }
}

TEST(ServeGenArrivalsTest, HalfARequestComesInHalfOfTheRounds) {
  const ServeGenFolder folder =
      OneClient("0,0.0025,1,Gamma,1,1\n", LengthsFile("1: 1", "1: 1"));
  ServeGenArrivals arrivals = ArrivalsOf(folder, 600 * 2000);
  // 1.5 requests a window; the standard error is 0.011.
  EXPECT_NEAR(static_cast<double>(TimesBefore(kNoEnd, &arrivals).size()) / 2000,
              1.5, 0.05);
}

TEST(ServeGenArrivalsTest, GapsHaveTheCvGiven) {
  struct Case {
    const char* distribution;
    double cv;
    double tolerance;
  };
  for (const Case& c : {Case{"Gamma", 0, 1e-6}, Case{"Gamma", 0.5, 0.02},
                        Case{"Gamma", 3, 0.15}, Case{"Weibull", 0.5, 0.02},
                        Case{"Weibull", 3, 0.3}, Case{"Exponential", 1, 0.03},
                        Case{"Gamma", 1, 0.03}}) {
    const ServeGenFolder folder =
        OneClient(absl::StrCat("0,100,", c.cv, ",", c.distribution, ",1,1\n"),
                  LengthsFile("1: 1", "1: 1"));
    ServeGenArrivals arrivals = ArrivalsOf(folder, 600);
    const std::vector<double> times = TimesBefore(600, &arrivals);
    ASSERT_GT(times.size(), 59'990u);
    EXPECT_NEAR(CvOfGaps(times), c.cv, c.tolerance) << c.distribution;
  }
}

TEST(ServeGenArrivalsTest, NoPartOfTheWindowIsFavoured) {
  // Bursts: without the random cut they would come where windows begin.
  const ServeGenFolder folder =
      OneClient("0,0.1,4,Gamma,1,1\n", LengthsFile("1: 1", "1: 1"));
  ServeGenArrivals arrivals = ArrivalsOf(folder, 600 * 3000);
  std::vector<double> tenths(10);
  double count = 0;
  for (const double time : TimesBefore(kNoEnd, &arrivals)) {
    ++tenths[static_cast<size_t>(std::fmod(time, 600) / 60)];
    ++count;
  }
  EXPECT_EQ(count, 180'000);
  EXPECT_THAT(tenths,
              Each(::testing::AllOf(Ge(0.09 * count), Lt(0.11 * count))));
}

TEST(ServeGenArrivalsTest, LengthsFollowTheHistogramsIndependently) {
  const ServeGenFolder folder =
      OneClient("0,100,1,Gamma,1,1\n",
                LengthsFile("10: 0.25, 20: 0.75", "1: 0.5, 2: 0.5"));
  ServeGenArrivals arrivals = ArrivalsOf(folder, 600);
  double all = 0;
  double short_input = 0;
  double short_output = 0;
  double both = 0;
  while (arrivals.Next()) {
    ++all;
    short_input += arrivals.input_tokens() == 10;
    short_output += arrivals.output_tokens() == 1;
    both += arrivals.input_tokens() == 10 && arrivals.output_tokens() == 1;
  }
  EXPECT_EQ(all, 60'000);
  EXPECT_NEAR(short_input / all, 0.25, 0.01);
  EXPECT_NEAR(short_output / all, 0.5, 0.01);
  EXPECT_NEAR(both / all, 0.125, 0.01);
}

TEST(ServeGenArrivalsTest, LengthsAreThoseOfTheLastWindowThatHasSome) {
  const ServeGenFolder folder = OneClient(
      "0,0.1,1,Gamma,1,1\n600,0.1,1,Gamma,1,1\n1200,0.1,1,Gamma,1,1\n",
      R"({"0": {"input_tokens": "{1: 1}", "output_tokens": "{10: 1}"},
          "600": {"input_tokens": "{}", "output_tokens": "{}"},
          "1200": {"input_tokens": "{3: 1}", "output_tokens": "{30: 1}"}})");
  ServeGenArrivals arrivals = ArrivalsOf(folder, 3600);
  size_t requests = 0;
  while (arrivals.Next()) {
    ++requests;
    const bool late = std::fmod(arrivals.time_s(), 1800) >= 1200;
    EXPECT_EQ(arrivals.input_tokens(), late ? 3u : 1u) << arrivals.time_s();
    EXPECT_EQ(arrivals.output_tokens(), late ? 30u : 10u);
  }
  EXPECT_EQ(requests, 360u) << "two rounds";
}

TEST(ServeGenArrivalsTest, AShareThinsOutWithoutChangingTheRest) {
  for (const char* distribution : {"Gamma", "Weibull"}) {
    const ServeGenFolder folder =
        OneClient(absl::StrCat("0,200,2,", distribution, ",1,1\n"),
                  LengthsFile("1: 1", "1: 1"));
    ServeGenArrivals arrivals = ArrivalsOf(folder, 6000, 0.1);
    const std::vector<double> times = TimesBefore(6000, &arrivals);
    EXPECT_NEAR(static_cast<double>(times.size()), 120'000, 10);
    // What thinning a renewal process leaves: 0.1 x 2^2 + 0.9 is the CV
    // squared.
    EXPECT_NEAR(CvOfGaps(times), std::sqrt(1.3), 0.03) << distribution;
  }
}

TEST(ServeGenArrivalsTest, SameSeedSameRequestsAlsoAfterRewinding) {
  const ServeGenFolder folder =
      OneClient("0,0.5,3,Gamma,1,1\n600,0.5,3,Weibull,1,1\n",
                LengthsFile("1: 0.5, 2: 0.5", "1: 1"));
  ServeGenArrivals a = ArrivalsOf(folder, 3600);
  ServeGenArrivals b = ArrivalsOf(folder, 3600);
  ServeGenArrivals other = ArrivalsOf(folder, 3600, 1, 2);
  const std::vector<double> times = TimesBefore(kNoEnd, &a);
  EXPECT_EQ(times.size(), 1800u);
  ASSERT_TRUE(b.Next());
  b.Rewind();
  EXPECT_EQ(TimesBefore(kNoEnd, &b), times);
  EXPECT_NE(TimesBefore(kNoEnd, &other), times);
  // Played again is drawn anew.
  EXPECT_NE(times[0] + 1200, times[600]);
}

TEST(ServeGenArrivalsTest, ExtremeBurstsStayWithinTheirWindow) {
  const ServeGenFolder folder =
      OneClient("0,0.01,10000,Gamma,1,1\n600,0.01,10000,Weibull,1,1\n",
                LengthsFile("1: 1", "1: 1"));
  ServeGenArrivals arrivals = ArrivalsOf(folder, 1200 * 100);
  const std::vector<double> times = TimesBefore(kNoEnd, &arrivals);
  ASSERT_EQ(times.size(), 1200u);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_THAT(times, Each(::testing::AllOf(Ge(0), Lt(120'001))));
}

}  // namespace
}  // namespace firn::bench

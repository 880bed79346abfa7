// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/arrival_gaps.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

// The mean and CV of sums of so many gaps, a sum at a time.
void ExpectMoments(const std::string& distribution, double cv, uint64_t gaps,
                   double wanted_cv) {
  FIRN_ASSERT_OK_AND_ASSIGN(const ArrivalGaps drawn,
                            ArrivalGaps::Create(distribution, cv));
  constexpr int kDraws = 200'000;
  SeededRandom random(1);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = drawn.DrawSum(gaps, &random);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  const double wanted_mean = static_cast<double>(gaps);
  EXPECT_NEAR(mean / wanted_mean, 1, 5 * wanted_cv / std::sqrt(kDraws) + 1e-9)
      << distribution << cv;
  EXPECT_NEAR(std::sqrt(std::max(0., squares / kDraws - mean * mean)) / mean,
              wanted_cv, 0.05 * wanted_cv + 1e-9)
      << distribution << cv;
}

TEST(ArrivalGapsTest, HaveMeanOneAndTheCvGiven) {
  for (const double cv : {0.0, 0.05, 0.5, 1.0, 2.0, 4.0}) {
    ExpectMoments("Gamma", cv, 1, cv);
    ExpectMoments("Weibull", cv, 1, cv);
  }
  ExpectMoments("Exponential", 7, 1, 1);
}

TEST(ArrivalGapsTest, SumsHaveTheMomentsOfSums) {
  for (const char* distribution : {"Gamma", "Weibull"}) {
    ExpectMoments(distribution, 2, 4, 1);
    ExpectMoments(distribution, 2, 100, 0.2);
    ExpectMoments(distribution, 0, 100, 0);
  }
}

TEST(ArrivalGapsTest, WeibullShapeFollowsFromTheCv) {
  // Shape 1 is exponential; 1/2 the square of one, whose CV is sqrt(5); shape 2
  // has sqrt(4 / pi - 1).
  EXPECT_NEAR(WeibullPower(1), 1, 1e-9);
  EXPECT_NEAR(WeibullPower(std::sqrt(5)), 2, 1e-9);
  EXPECT_NEAR(WeibullPower(std::sqrt(4 / 3.14159265358979323846 - 1)), 0.5,
              1e-9);
}

TEST(ArrivalGapsTest, LogGammaIsThatOfFactorials) {
  EXPECT_NEAR(LogGamma(1), 0, 1e-12);
  EXPECT_NEAR(LogGamma(5), std::log(24.0), 1e-12);
  EXPECT_NEAR(LogGamma(1.5), std::log(std::sqrt(3.14159265358979323846) / 2),
              1e-12);
  EXPECT_NEAR(LogGamma(21), std::log(2432902008176640000.0), 1e-11);
}

TEST(ArrivalGapsTest, RefusesWhatItDoesNotKnow) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(
      ArrivalGaps::Create("Pareto", 1),
      StatusIs(kInvalid, HasSubstr("'Pareto' is no known distribution; Gamma, "
                                   "Weibull or Exponential is expected")));
  EXPECT_THAT(ArrivalGaps::Create("", 1),
              StatusIs(kInvalid, HasSubstr("'' is no known distribution")));
  EXPECT_THAT(ArrivalGaps::Create("Gamma", 1e5),
              StatusIs(kInvalid, HasSubstr("0 to 10000 is expected")));
  EXPECT_THAT(ArrivalGaps::Create("Gamma", std::nan("")),
              StatusIs(kInvalid, HasSubstr("0 to 10000 is expected")));
}

}  // namespace
}  // namespace firn::bench

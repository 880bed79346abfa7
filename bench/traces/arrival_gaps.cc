// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/arrival_gaps.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/random_variates.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

// Below this, gaps are all the same.
constexpr double kLeastCv = 1e-3;

// From here on a sum of Weibull gaps is drawn at once.
constexpr uint64_t kManyGaps = 8;

}  // namespace

double LogGamma(double x) {
  // Stirling's series, after moving x up to where it is exact to 1e-13.
  double product = 1;
  while (x < 16) product *= x++;
  constexpr double kHalfLogTwoPi = 0.91893853320467274178;
  const double r = 1 / (x * x);
  const double series =
      (1.0 / 12 - r * (1.0 / 360 - r * (1.0 / 1260 - r / 1680))) / x;
  return (x - 0.5) * std::log(x) - x + kHalfLogTwoPi + series -
         std::log(product);
}

double WeibullPower(double cv) {
  // 1 + CV^2 = Gamma(1 + 2p) / Gamma(1 + p)^2 rises with p = 1 / shape.
  const double wanted = std::log1p(cv * cv);
  double low = 0;
  double high = 30;  // a CV beyond 10^8
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    const double reached = LogGamma(1 + 2 * middle) - 2 * LogGamma(1 + middle);
    (reached < wanted ? low : high) = middle;
  }
  return high;
}

absl::StatusOr<ArrivalGaps> ArrivalGaps::Create(absl::string_view distribution,
                                                double cv) {
  ArrivalGaps gaps;
  if (distribution == "Exponential") return gaps;
  if (distribution != "Gamma" && distribution != "Weibull") {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(distribution), " is no known distribution; ",
                     "Gamma, Weibull or Exponential is expected"));
  }
  if (!(cv >= 0 && cv <= kMaxCv)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a coefficient of variation of ", cv, "; 0 to ", kMaxCv,
                     " is expected"));
  }
  gaps.cv_squared_ = cv < kLeastCv ? 0 : cv * cv;
  if (distribution == "Weibull" && gaps.cv_squared_ > 0) {
    gaps.weibull_power_ = WeibullPower(cv);
    gaps.weibull_scale_ = std::exp(-LogGamma(1 + gaps.weibull_power_));
  }
  return gaps;
}

double ArrivalGaps::DrawSum(uint64_t gaps, SeededRandom* random) const {
  const double mean = static_cast<double>(gaps);
  if (cv_squared_ == 0) return mean;
  if (weibull_power_ == 0 || gaps >= kManyGaps) {
    return DrawGamma(mean / cv_squared_, random) * cv_squared_;
  }
  double sum = 0;
  for (uint64_t i = 0; i < gaps; ++i) {
    const double exponential = -std::log(1 - random->Fraction());
    sum += weibull_scale_ * std::pow(exponential, weibull_power_);
  }
  return sum;
}

}  // namespace firn::bench

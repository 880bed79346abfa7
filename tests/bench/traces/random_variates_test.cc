// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/random_variates.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::bench {
namespace {

constexpr int kDraws = 200'000;

struct Moments {
  double mean = 0;
  double variance = 0;
};

template <typename Draw>
Moments MomentsOf(Draw draw) {
  SeededRandom random(1);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draw(&random);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  return {mean, squares / kDraws - mean * mean};
}

TEST(RandomVariatesTest, NormalHasMeanZeroAndVarianceOne) {
  const Moments moments = MomentsOf(&DrawNormal);
  EXPECT_NEAR(moments.mean, 0, 0.01);
  EXPECT_NEAR(moments.variance, 1, 0.015);
}

TEST(RandomVariatesTest, MeanAndVarianceOfGammaAreItsShape) {
  for (const double shape : {0.03, 0.25, 1.0, 1.5, 40.0, 5000.0}) {
    const Moments moments = MomentsOf(
        [shape](SeededRandom* random) { return DrawGamma(shape, random); });
    // Five standard errors of the mean; of the variance, whose kurtosis is
    // 3 + 6 / shape.
    EXPECT_NEAR(moments.mean, shape, 5 * std::sqrt(shape / kDraws)) << shape;
    EXPECT_NEAR(moments.variance, shape,
                5 * shape * std::sqrt((2 + 6 / shape) / kDraws))
        << shape;
  }
}

TEST(RandomVariatesTest, GammaOfShapeOneIsExponential) {
  SeededRandom random(2);
  int beyond = 0;
  for (int i = 0; i < kDraws; ++i) beyond += DrawGamma(1, &random) > 2;
  EXPECT_NEAR(static_cast<double>(beyond) / kDraws, std::exp(-2.0), 0.004);
}

TEST(RandomVariatesTest, GammaOfATinyShapeIsZeroMostlyAndNeverBad) {
  SeededRandom random(3);
  int zeros = 0;
  for (int i = 0; i < 1000; ++i) {
    const double drawn = DrawGamma(1e-6, &random);
    ASSERT_TRUE(drawn >= 0 && drawn < 1e3);
    zeros += drawn == 0;
  }
  EXPECT_GT(zeros, 900);
}

TEST(RandomVariatesTest, TriesAreGeometric) {
  const Moments moments = MomentsOf([](SeededRandom* random) {
    return static_cast<double>(DrawTries(0.1, random));
  });
  EXPECT_NEAR(moments.mean, 10, 0.15);
  EXPECT_NEAR(moments.variance, 90, 4);  // (1 - p) / p^2
  SeededRandom random(4);
  EXPECT_EQ(DrawTries(1, &random), 1u);
  EXPECT_GT(DrawTries(1e-300, &random), uint64_t{1} << 40);
}

}  // namespace
}  // namespace firn::bench

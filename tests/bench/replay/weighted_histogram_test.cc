// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/weighted_histogram.h"

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

TEST(WeightedHistogramTest, WithoutValuesEveryQuantileIsZero) {
  EXPECT_EQ(WeightedHistogram().Quantile(0.99), 0);
}

TEST(WeightedHistogramTest, AQuantileIsTheLeastValueWithEnoughWeightUpToIt) {
  WeightedHistogram histogram;
  histogram.Add(3.7, 1);
  histogram.Add(1.25, 98);
  histogram.Add(2.5, 1);
  EXPECT_EQ(histogram.Quantile(0), 1.25);
  EXPECT_EQ(histogram.Quantile(0.98), 1.25);
  EXPECT_EQ(histogram.Quantile(0.981), 2.5);
  EXPECT_EQ(histogram.Quantile(0.99), 2.5);
  EXPECT_EQ(histogram.Quantile(0.991), 3.7);
  EXPECT_EQ(histogram.Quantile(1), 3.7);
}

TEST(WeightedHistogramTest, ManyValuesAreTrueToOneIn2048) {
  WeightedHistogram histogram;
  for (int i = 1; i <= 100000; ++i) histogram.Add(i, 1);
  for (const double quantile : {0.001, 0.01, 0.5, 0.9, 0.99, 0.999}) {
    const double expected = quantile * 100000;
    EXPECT_GE(histogram.Quantile(quantile), expected * (1 - 1e-12));
    EXPECT_LE(histogram.Quantile(quantile), expected * (1 + 1.0 / 2048));
  }
}

TEST(WeightedHistogramTest, ValuesOutsideItsRangeAreKeptAtItsEnds) {
  WeightedHistogram histogram;
  histogram.Add(0, 1);
  histogram.Add(1e12, 1);
  EXPECT_EQ(histogram.Quantile(0.5), 0);
  EXPECT_EQ(histogram.Quantile(1), 1e12);
}

}  // namespace
}  // namespace firn::bench

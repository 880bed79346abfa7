// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/sample_set.h"

#include "gtest/gtest.h"

namespace firn::gpu_check {
namespace {

TEST(SampleSetTest, PercentilesAreReadingsByNearestRank) {
  SampleSet samples;
  for (int value = 10; value >= 1; --value) samples.Add(value);
  EXPECT_EQ(samples.count(), 10u);
  EXPECT_EQ(samples.p10(), 1);
  EXPECT_EQ(samples.median(), 5);
  EXPECT_EQ(samples.p90(), 9);
  EXPECT_EQ(samples.Percentile(1), 10);
}

TEST(SampleSetTest, OneReadingIsEachPercentileAndNoneIsZero) {
  SampleSet samples;
  EXPECT_EQ(samples.median(), 0);
  samples.Add(7.5);
  EXPECT_EQ(samples.p10(), 7.5);
  EXPECT_EQ(samples.p90(), 7.5);
}

}  // namespace
}  // namespace firn::gpu_check

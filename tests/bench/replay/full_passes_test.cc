// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/full_passes.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::bench {
namespace {

using ::testing::ElementsAre;

// After which events the passes are made.
std::vector<uint64_t> PointsOf(uint64_t passes, uint64_t events) {
  FullPasses full_passes(passes, events);
  std::vector<uint64_t> points;
  for (uint64_t done = 1; done <= events; ++done) {
    while (full_passes.IsDue(done)) {
      points.push_back(done);
      full_passes.Done({8, 8});
    }
  }
  return points;
}

TEST(FullPassesTest, PointsAreRoundedAndTheLastIsTheEnd) {
  EXPECT_THAT(PointsOf(1, 7), ElementsAre(7));
  EXPECT_THAT(PointsOf(2, 7), ElementsAre(4, 7));
  EXPECT_THAT(PointsOf(3, 7), ElementsAre(2, 5, 7));
  EXPECT_THAT(PointsOf(4, 4), ElementsAre(1, 2, 3, 4));
}

TEST(FullPassesTest, MorePassesThanEventsShareThem) {
  EXPECT_THAT(PointsOf(5, 2), ElementsAre(1, 1, 1, 2, 2));
}

TEST(FullPassesTest, NoneIsDueWhereNoneIsWanted) {
  EXPECT_THAT(PointsOf(0, 5), ElementsAre());
  EXPECT_EQ(FullPasses(0, 5).figures().passes, 0u);
}

TEST(FullPassesTest, KeepsTheWorstAndTheMean) {
  FullPasses full_passes(3, 3);
  full_passes.Done({100, 100});
  full_passes.Done({12, 10});
  full_passes.Done({11, 10});
  const FullPassFigures figures = full_passes.figures();
  EXPECT_EQ(figures.passes, 3u);
  EXPECT_EQ(figures.counted_passes, 3u);
  ASSERT_TRUE(figures.worst_used_over_bound.has_value());
  EXPECT_DOUBLE_EQ(*figures.worst_used_over_bound, 1.2);
  ASSERT_TRUE(figures.mean_used_over_bound.has_value());
  EXPECT_DOUBLE_EQ(*figures.mean_used_over_bound, 1.1);
}

TEST(FullPassesTest, WhatFewGranulesHoldIsInNoRatio) {
  FullPasses full_passes(3, 3);
  full_passes.Done({14, 7});
  full_passes.Done({0, 0});
  EXPECT_FALSE(full_passes.figures().worst_used_over_bound.has_value());
  EXPECT_FALSE(full_passes.figures().mean_used_over_bound.has_value());
  full_passes.Done({9, 8});
  const FullPassFigures figures = full_passes.figures();
  EXPECT_EQ(figures.passes, 3u);
  EXPECT_EQ(figures.counted_passes, 1u);
  EXPECT_EQ(figures.worst_used_over_bound, 1.125);
  EXPECT_EQ(figures.mean_used_over_bound, 1.125);
}

}  // namespace
}  // namespace firn::bench

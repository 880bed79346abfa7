// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/best_fit_ranges.h"

#include <optional>

#include "gtest/gtest.h"

namespace firn::testing {
namespace {

TEST(BestFitRangesTest, TakesTheShortestRangeThatIsLongEnough) {
  BestFitRanges ranges;
  ranges.Give({100, 30});
  ranges.Give({200, 10});
  ranges.Give({300, 20});
  EXPECT_EQ(ranges.Take(11), std::optional<uint64_t>(300));
  // 9 of it are left, at 311.
  EXPECT_EQ(ranges.Take(9), std::optional<uint64_t>(311));
  EXPECT_EQ(ranges.Take(31), std::nullopt);
  EXPECT_EQ(ranges.Take(30), std::optional<uint64_t>(100));
  EXPECT_EQ(ranges.Take(10), std::optional<uint64_t>(200));
  EXPECT_EQ(ranges.count(), 0u);
}

TEST(BestFitRangesTest, TakesTheLowestOfEquals) {
  BestFitRanges ranges;
  ranges.Give({300, 10});
  ranges.Give({100, 10});
  ranges.Give({200, 10});
  EXPECT_EQ(ranges.Take(5), std::optional<uint64_t>(100));
}

TEST(BestFitRangesTest, JoinsWithTheRangesBelowAndAbove) {
  BestFitRanges ranges;
  ranges.Give({100, 10});
  ranges.Give({120, 10});
  ranges.Give({130, 10});  // below: [120, 140)
  EXPECT_EQ(ranges.count(), 2u);
  ranges.Give({90, 10});  // above: [90, 110)
  EXPECT_EQ(ranges.count(), 2u);
  ranges.Give({110, 10});  // both: [90, 140)
  EXPECT_EQ(ranges.count(), 1u);
  EXPECT_EQ(ranges.Take(50), std::optional<uint64_t>(90));
}

TEST(BestFitRangesTest, DoesNotJoinAcrossAGap) {
  BestFitRanges ranges;
  ranges.Give({100, 10});
  ranges.Give({111, 10});
  ranges.Give({89, 10});
  EXPECT_EQ(ranges.count(), 3u);
  EXPECT_EQ(ranges.Take(11), std::nullopt);
}

TEST(BestFitRangesTest, TakesARangeOutOfTheMiddleOfAnother) {
  BestFitRanges ranges;
  ranges.Give({100, 100});
  EXPECT_FALSE(ranges.TakeAt({90, 20}));
  EXPECT_FALSE(ranges.TakeAt({190, 20}));
  EXPECT_TRUE(ranges.TakeAt({120, 30}));
  EXPECT_FALSE(ranges.TakeAt({149, 1}));
  EXPECT_EQ(ranges.count(), 2u);
  EXPECT_EQ(ranges.Take(50), std::optional<uint64_t>(150));
  EXPECT_EQ(ranges.Take(20), std::optional<uint64_t>(100));
  EXPECT_EQ(ranges.count(), 0u);
}

TEST(BestFitRangesTest, RemovesThePartsOfARange) {
  BestFitRanges ranges;
  ranges.Give({100, 100});
  ranges.Give({300, 100});
  ranges.Give({500, 100});
  EXPECT_EQ(ranges.Remove({0, 100}), 0u);
  EXPECT_EQ(ranges.Remove({200, 100}), 0u);
  EXPECT_EQ(ranges.Remove({150, 400}), 200u);
  EXPECT_EQ(ranges.count(), 2u);
  EXPECT_EQ(ranges.Take(51), std::nullopt);
  EXPECT_EQ(ranges.Remove({110, 10}), 10u);
  EXPECT_EQ(ranges.count(), 3u);
  EXPECT_EQ(ranges.Remove({0, 1000}), 90u);
  EXPECT_EQ(ranges.count(), 0u);
}

}  // namespace
}  // namespace firn::testing

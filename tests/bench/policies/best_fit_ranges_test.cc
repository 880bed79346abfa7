// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/best_fit_ranges.h"

#include "absl/types/optional.h"
#include "gtest/gtest.h"

namespace firn::bench {
namespace {

TEST(BestFitRangesTest, TakesTheShortestRangeThatIsLongEnough) {
  BestFitRanges ranges;
  ranges.Give({100, 30});
  ranges.Give({200, 10});
  ranges.Give({300, 20});
  EXPECT_EQ(ranges.Take(11), absl::optional<uint64_t>(300));
  // 9 of it are left, at 311.
  EXPECT_EQ(ranges.Take(9), absl::optional<uint64_t>(311));
  EXPECT_EQ(ranges.Take(31), absl::nullopt);
  EXPECT_EQ(ranges.Take(30), absl::optional<uint64_t>(100));
  EXPECT_EQ(ranges.Take(10), absl::optional<uint64_t>(200));
  EXPECT_EQ(ranges.count(), 0u);
}

TEST(BestFitRangesTest, TakesTheLowestOfEquals) {
  BestFitRanges ranges;
  ranges.Give({300, 10});
  ranges.Give({100, 10});
  ranges.Give({200, 10});
  EXPECT_EQ(ranges.Take(5), absl::optional<uint64_t>(100));
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
  EXPECT_EQ(ranges.Take(50), absl::optional<uint64_t>(90));
}

TEST(BestFitRangesTest, DoesNotJoinAcrossAGap) {
  BestFitRanges ranges;
  ranges.Give({100, 10});
  ranges.Give({111, 10});
  ranges.Give({89, 10});
  EXPECT_EQ(ranges.count(), 3u);
  EXPECT_EQ(ranges.Take(11), absl::nullopt);
}

}  // namespace
}  // namespace firn::bench

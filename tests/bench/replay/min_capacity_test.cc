// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/min_capacity.h"

#include <set>

#include "absl/status/status.h"
#include "bench/replay/capacity.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;

constexpr uint64_t kGranule = uint64_t{2} << 20;
constexpr uint64_t kPeak = 2000 * kGranule;

TEST(MinCapacityTest, FindsTheLeastStepThatFits) {
  for (const uint64_t needed_granules :
       {1u, 2000u, 2001u, 2010u, 2011u, 2020u, 2055u, 3000u, 3001u, 7777u}) {
    std::set<uint64_t> asked;
    const auto fits = [&](uint64_t capacity_bytes) -> absl::StatusOr<bool> {
      EXPECT_TRUE(asked.insert(capacity_bytes).second) << "asked twice";
      return capacity_bytes >= needed_granules * kGranule;
    };
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t found,
                              FindMinCapacity(kPeak, kGranule, fits));
    EXPECT_GE(found, needed_granules * kGranule);
    EXPECT_GE(found, kPeak);
    if (needed_granules > 2000) {
      // One step of 0.005 (10 granules) less is too little.
      EXPECT_LT(found - 10 * kGranule, needed_granules * kGranule);
    } else {
      EXPECT_EQ(found, kPeak);
    }
    EXPECT_EQ(found % (10 * kGranule), 0u);
    EXPECT_LE(asked.size(), 24u);
  }
}

TEST(MinCapacityTest, TheLastCapacityThatFittedIsTheAnswer) {
  uint64_t last_fitting = 0;
  const auto fits = [&](uint64_t capacity_bytes) -> absl::StatusOr<bool> {
    if (capacity_bytes < 2345 * kGranule) return false;
    last_fitting = capacity_bytes;
    return true;
  };
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t found,
                            FindMinCapacity(kPeak, kGranule, fits));
  EXPECT_EQ(found, last_fitting);
}

TEST(MinCapacityTest, ASmallTraceIsAskedAboutOncePerGranule) {
  int asked = 0;
  const auto fits = [&](uint64_t capacity_bytes) -> absl::StatusOr<bool> {
    ++asked;
    return capacity_bytes >= 3 * kGranule;
  };
  EXPECT_THAT(FindMinCapacity(600, kGranule, fits), IsOkAndHolds(3 * kGranule));
  EXPECT_LE(asked, 5);
}

TEST(MinCapacityTest, AnErrorEndsTheSearch) {
  const auto fits = [](uint64_t) -> absl::StatusOr<bool> {
    return absl::DataLossError("broken");
  };
  EXPECT_THAT(FindMinCapacity(kPeak, kGranule, fits),
              StatusIs(absl::StatusCode::kDataLoss, "broken"));
}

TEST(MinCapacityTest, GivesUpWhenNothingFits) {
  const auto fits = [](uint64_t) -> absl::StatusOr<bool> { return false; };
  EXPECT_THAT(FindMinCapacity(kPeak, kGranule, fits),
              StatusIs(absl::StatusCode::kOutOfRange));
}

}  // namespace
}  // namespace firn::bench

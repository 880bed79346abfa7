// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cost_model.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

constexpr uint64_t kMib = uint64_t{1} << 20;

TEST(ParseCostProfileTest, KnowsTheNamesOfTheProfiles) {
  EXPECT_THAT(ParseCostProfile("none"), IsOkAndHolds(CostProfile::kNone));
  EXPECT_THAT(ParseCostProfile("fast"), IsOkAndHolds(CostProfile::kFast));
  EXPECT_THAT(ParseCostProfile("a100"), IsOkAndHolds(CostProfile::kA100));
}

TEST(ParseCostProfileTest, AnUnknownNameIsRefusedWithTheList) {
  EXPECT_THAT(
      ParseCostProfile("A100"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("'A100'"), HasSubstr("a100, fast or none"))));
  EXPECT_THAT(ParseCostProfile(""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("''")));
}

TEST(CostModelTest, NoneChargesNothing) {
  CostModel model(CostProfile::kNone);
  EXPECT_EQ(model.Reserve(), 0);
  EXPECT_EQ(model.Create(), 0);
  EXPECT_EQ(model.Map(), 0);
  EXPECT_EQ(model.SetAccess(1000), 0);
  EXPECT_EQ(model.Unmap(1000), 0);
  EXPECT_EQ(model.Release(), 0);
  EXPECT_EQ(model.Copy(uint64_t{1} << 40), 0);
}

TEST(CostModelTest, FastHasTheSameCostsEachTime) {
  CostModel model(CostProfile::kFast);
  for (int i = 0; i < 10000; ++i) {
    ASSERT_EQ(model.Reserve(), 9);
    ASSERT_EQ(model.Create(), 8);
    ASSERT_EQ(model.Map(), 1);
    ASSERT_EQ(model.SetAccess(1), 21);
    ASSERT_EQ(model.SetAccess(100), 120);
    ASSERT_EQ(model.Unmap(1), 11.5);
    ASSERT_EQ(model.Unmap(100), 1150);
    ASSERT_EQ(model.Release(), 8);
  }
}

TEST(CostModelTest, CopiesCostALaunchAndTheBytesAtTheBandwidth) {
  // 2097152 bytes at 0.75e6 and 1.4e6 bytes a microsecond.
  CostModel a100(CostProfile::kA100);
  EXPECT_DOUBLE_EQ(a100.Copy(0), 8);
  EXPECT_NEAR(a100.Copy(2 * kMib), 8 + 2.79620, 1e-4);
  CostModel fast(CostProfile::kFast);
  EXPECT_DOUBLE_EQ(fast.Copy(0), 5);
  EXPECT_NEAR(fast.Copy(2 * kMib), 5 + 1.49797, 1e-4);
}

TEST(CostModelTest, MostA100CallsCostTheirPublishedTime) {
  CostModel model(CostProfile::kA100);
  int usual = 0;
  for (int i = 0; i < 100; ++i) {
    usual += model.Reserve() == 19;
    usual += model.Map() == 1.5;
    usual += model.SetAccess(1) == 36;
    usual += model.SetAccess(10) == 180;
    usual += model.Unmap(1) == 26;
    usual += model.Unmap(10) == 260;
    usual += model.Release() == 20;
  }
  // All but the tail, whose expected share of 700 calls is 7.
  EXPECT_THAT(usual, AllOf(Ge(675), Le(700)));
}

TEST(CostModelTest, AnA100CreateTakesFrom30To195Microseconds) {
  CostModel model(CostProfile::kA100);
  constexpr int kCalls = 200000;
  double sum_us = 0;
  double least_us = 1e9;
  int within = 0;
  for (int i = 0; i < kCalls; ++i) {
    const double us = model.Create();
    sum_us += us;
    if (us < least_us) least_us = us;
    within += us <= 195;
  }
  EXPECT_GE(least_us, 30);
  EXPECT_LT(least_us, 31);
  // Mean of the uniform part 112.5, times 1 + 3 % for the slow calls, and
  // 0.0002 * 550 for the stalls.
  EXPECT_NEAR(sum_us / kCalls, 115.985, 0.8);
  // A slow call stays below 195 where it starts below 48.75, one in nine.
  EXPECT_NEAR(static_cast<double>(within) / kCalls, 0.9909, 0.002);
}

TEST(CostModelTest, TheA100TailIsOnePercentSlowAndOneIn5000Stalled) {
  CostModel model(CostProfile::kA100);
  constexpr int kCalls = 500000;
  int slow = 0;
  int stalled = 0;
  for (int i = 0; i < kCalls; ++i) {
    const double us = model.Map();
    if (us == 1.5) continue;
    if (us == 6) {
      ++slow;
      continue;
    }
    ++stalled;
    EXPECT_THAT(us, AllOf(Ge(151.5), Le(951.5)));
  }
  // Expected 5000 and 100, with five standard deviations either way.
  EXPECT_NEAR(slow, 5000, 355);
  EXPECT_NEAR(stalled, 100, 50);
}

TEST(CostModelTest, TheSameCallsCostTheSame) {
  std::vector<double> runs[2];
  for (std::vector<double>& run : runs) {
    CostModel model(CostProfile::kA100);
    for (uint64_t i = 0; i < 5000; ++i) {
      run.push_back(model.Create());
      run.push_back(model.Unmap(i % 7));
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
}

}  // namespace
}  // namespace firn::testing

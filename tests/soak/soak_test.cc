// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A soak of two seconds; tests/run --soak has long ones.

#include "tests/soak/soak.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

class SoakTest : public ::testing::TestWithParam<CpuSync> {};

TEST_P(SoakTest, KeepsEveryByteWhileControllersNeverStop) {
  SoakOptions options;
  options.sync = GetParam();
  options.duration = absl::Seconds(2);
  FIRN_ASSERT_OK_AND_ASSIGN(const SoakResult result, RunSoak(options));
  EXPECT_EQ(result.content_errors, 0u);
  EXPECT_EQ(result.sticky_errors, 0u);
  EXPECT_EQ(result.refused_calls, 0u) << result.first_refusal;
  EXPECT_GT(result.checks, 0u);
  EXPECT_GT(result.captures, 0u);
  EXPECT_GT(result.moves, 0u);
}

INSTANTIATE_TEST_SUITE_P(Extremes, SoakTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST(SoakLineTest, TellsModeTimeMovesAndErrors) {
  SoakOptions options;
  options.sync = CpuSync::kDraining;
  SoakResult result;
  result.seconds = 600.7;
  result.moves = 123'456;
  result.content_errors = 1;
  result.sticky_errors = 2;
  EXPECT_EQ(SoakLine(options, result),
            "soak: mode=draining seconds=600 moves=123456 content_errors=1 "
            "sticky_errors=2");
}

}  // namespace
}  // namespace firn::testing

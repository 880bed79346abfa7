// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "absl/status/status.h"
#include "bench/policies/arena_policy.h"
#include "gtest/gtest.h"
#include "tests/bench/policies/policy_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;

TEST(BestFitPolicyTest, TakesTheShortestHoleThatIsLongEnough) {
  BestFitPolicy policy(Options(64 * kMiB));
  // Holes of 4096 at 0, of 1024 at 4608 and of 2048 at 6144.
  ASSERT_THAT(policy.Allocate(4096, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(4096u));
  ASSERT_THAT(policy.Allocate(1024, 0), IsOkAndHolds(4608u));
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(5632u));
  ASSERT_THAT(policy.Allocate(2048, 0), IsOkAndHolds(6144u));
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(8192u));
  for (const uint64_t address : {0u, 4608u, 6144u}) {
    FIRN_ASSERT_OK(policy.Free(address, 0));
  }
  EXPECT_THAT(policy.Allocate(1025, 0), IsOkAndHolds(6144u));
  // What it left, at 7680, is now the shortest.
  EXPECT_THAT(policy.Allocate(1, 0), IsOkAndHolds(7680u));
  EXPECT_THAT(policy.Allocate(513, 0), IsOkAndHolds(4608u));
  EXPECT_THAT(policy.Allocate(4097, 0), IsOkAndHolds(8704u));
}

TEST(BestFitPolicyTest, JoinsAFreedBlockWithBothNeighbours) {
  BestFitPolicy policy(Options(6 * kMiB));
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(i * kMiB));
  }
  for (const uint64_t i : {1u, 3u, 2u})
    FIRN_ASSERT_OK(policy.Free(i * kMiB, 0));
  EXPECT_THAT(policy.Allocate(3 * kMiB + 1, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(policy.Allocate(3 * kMiB, 0), IsOkAndHolds(kMiB));
}

TEST(BestFitPolicyTest, ChargesTheDriverForItsHighWaterExtentAlone) {
  BestFitPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(3 * kMiB, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(3 * kMiB));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  ASSERT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(0u));
  EXPECT_EQ(policy.usage().used_bytes, 6 * kMiB);
  EXPECT_EQ(policy.usage().held_bytes, 6 * kMiB);
  const PolicyReport report = policy.Report();
  EXPECT_EQ(report.driver_calls.create, 3u);
  EXPECT_EQ(report.driver_calls.map, 3u);
  EXPECT_EQ(report.driver_calls.set_access, 2u);
  EXPECT_EQ(report.driver_calls.release, 0u);
  // create 8 and map 1 us each; access 20 us a call and 1 a granule.
  EXPECT_DOUBLE_EQ(report.driver_us_modelled, 3 * (8 + 1) + 2 * 20 + 3);
  EXPECT_EQ(report.lower_bound_bytes, 4 * kMiB);
}

TEST(BestFitPolicyTest, RefusesToFreeWhatIsNoBlock) {
  BestFitPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK(policy.Allocate(4096, 0));
  EXPECT_THAT(policy.Free(512, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_THAT(policy.Free(0, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace firn::bench

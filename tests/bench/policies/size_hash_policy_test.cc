// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/size_hash_policy.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/bench/policies/policy_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;

TEST(SizeHashPolicyTest, ReusesABlockOfTheSameRoundedSizeOnly) {
  SizeHashPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(1000, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(1024u));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  // A larger block is not split: the untouched end is cut.
  EXPECT_THAT(policy.Allocate(512, 0), IsOkAndHolds(1536u));
  EXPECT_THAT(policy.Allocate(1024, 0), IsOkAndHolds(0u));
}

TEST(SizeHashPolicyTest, OfOneSizeTheLastFreedComesFirst) {
  SizeHashPolicy policy(Options(64 * kMiB));
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(i * 512));
  }
  FIRN_ASSERT_OK(policy.Free(1024, 0));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_THAT(policy.Allocate(1, 0), IsOkAndHolds(0u));
  EXPECT_THAT(policy.Allocate(1, 0), IsOkAndHolds(1024u));
}

TEST(SizeHashPolicyTest, JoinsFreeNeighboursWhenTheEndIsExhausted) {
  SizeHashPolicy policy(Options(8 * kMiB));
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(i * 2 * kMiB));
  }
  FIRN_ASSERT_OK(policy.Free(2 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(4 * kMiB, 0));
  EXPECT_THAT(policy.Allocate(4 * kMiB + 1, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(policy.Allocate(4 * kMiB, 0), IsOkAndHolds(2 * kMiB));
}

TEST(SizeHashPolicyTest, TheRestOfTheEndIsJoinedWithWhatIsFreeBelowIt) {
  SizeHashPolicy policy(Options(8 * kMiB));
  ASSERT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(4 * kMiB, 0), IsOkAndHolds(2 * kMiB));
  FIRN_ASSERT_OK(policy.Free(2 * kMiB, 0));
  EXPECT_THAT(policy.Allocate(6 * kMiB, 0), IsOkAndHolds(2 * kMiB));
}

TEST(SizeHashPolicyTest, SplitsTheBestFitOnceTheEndIsExhausted) {
  SizeHashPolicy policy(Options(8 * kMiB));
  ASSERT_THAT(policy.Allocate(3 * kMiB, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(3 * kMiB));
  ASSERT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(3 * kMiB + 512));
  ASSERT_THAT(policy.Allocate(3 * kMiB - 512, 0), IsOkAndHolds(5 * kMiB + 512));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  FIRN_ASSERT_OK(policy.Free(3 * kMiB + 512, 0));
  EXPECT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(3 * kMiB + 512));
  EXPECT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(4 * kMiB + 512));
  EXPECT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(0u));
}

TEST(SizeHashPolicyTest, AnExactBlockGoesBeforeASplit) {
  SizeHashPolicy policy(Options(4 * kMiB));
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(i * kMiB));
  }
  FIRN_ASSERT_OK(policy.Free(0, 0));
  // Exhausts the end and splits the block at 0.
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(0u));
  FIRN_ASSERT_OK(policy.Free(3 * kMiB, 0));
  // From the rest of the split block, not from the one in its bin ...
  EXPECT_THAT(policy.Allocate(kMiB / 2, 0), IsOkAndHolds(512u));
  // ... which is there for its own size.
  EXPECT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(3 * kMiB));
}

TEST(SizeHashPolicyTest, ChargesTheDriverForItsHighWaterExtentAlone) {
  SizeHashPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(3 * kMiB, 0), IsOkAndHolds(0u));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_EQ(policy.usage().held_bytes, 4 * kMiB);
  ASSERT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(3 * kMiB));
  EXPECT_EQ(policy.usage().used_bytes, 6 * kMiB);
  const PolicyReport report = policy.Report();
  EXPECT_EQ(report.driver_calls.create, 3u);
  EXPECT_EQ(report.driver_calls.set_access, 2u);
  EXPECT_EQ(report.driver_calls.unmap, 0u);
  EXPECT_DOUBLE_EQ(report.driver_us_modelled, 3 * (8 + 1) + 2 * 20 + 3);
}

TEST(SizeHashPolicyTest, RefusesToFreeWhatIsNoBlock) {
  SizeHashPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK(policy.Allocate(4096, 0));
  EXPECT_THAT(policy.Free(512, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_THAT(policy.Free(0, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SizeHashPolicyTest, ARequestBeyondAllThatIsFreeChangesNothing) {
  SizeHashPolicy policy(Options(2 * kMiB));
  FIRN_ASSERT_OK(policy.Allocate(1 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block, policy.Allocate(512, 0));
  FIRN_ASSERT_OK(policy.Free(block, 0));
  EXPECT_THAT(policy.Allocate(1 * kMiB + 1, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  // The bin still has its block, and the end is still untouched.
  EXPECT_THAT(policy.Allocate(512, 0), IsOkAndHolds(block));
  EXPECT_THAT(policy.Allocate(1024, 0), IsOkAndHolds(block + 512));
}

}  // namespace
}  // namespace firn::bench

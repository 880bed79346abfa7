// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/slab_policy.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/bench/policies/policy_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;

TEST(SlabPolicyTest, CutsSlabsIntoObjectsOfOneClass) {
  SlabPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(512 * kKiB, 0), IsOkAndHolds(0u));
  // Rounded up to 9 KiB, in a slab of its own.
  ASSERT_THAT(policy.Allocate(8 * kKiB + 1, 0), IsOkAndHolds(2 * kMiB));
  EXPECT_THAT(policy.Allocate(9 * kKiB, 0), IsOkAndHolds(2 * kMiB + 9 * kKiB));
  EXPECT_THAT(policy.Allocate(512 * kKiB, 0), IsOkAndHolds(512 * kKiB));
}

TEST(SlabPolicyTest, ReusesTheLowestFreeSlot) {
  SlabPolicy policy(Options(64 * kMiB));
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_THAT(policy.Allocate(512 * kKiB, 0), IsOkAndHolds(i * 512 * kKiB));
  }
  FIRN_ASSERT_OK(policy.Free(1024 * kKiB, 0));
  FIRN_ASSERT_OK(policy.Free(512 * kKiB, 0));
  EXPECT_THAT(policy.Allocate(512 * kKiB, 0), IsOkAndHolds(512 * kKiB));
}

TEST(SlabPolicyTest, AnEmptySlabServesAnyClassButIsNeverGivenBack) {
  SlabPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(0u));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_EQ(policy.usage().used_bytes, 2 * kMiB);
  EXPECT_EQ(policy.usage().held_bytes, 2 * kMiB);
  EXPECT_THAT(policy.Allocate(1024, 0), IsOkAndHolds(0u));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kMiB);
  EXPECT_EQ(policy.Report().driver_calls.create, 1u);
  EXPECT_EQ(policy.Report().driver_calls.release, 0u);
}

TEST(SlabPolicyTest, SlabsOfAwkwardSizesAreLonger) {
  SlabPolicy policy(Options(64 * kMiB));
  // 576 KiB: 7 in 2 granules.
  for (uint64_t i = 0; i < 7; ++i) {
    ASSERT_THAT(policy.Allocate(576 * kKiB, 0), IsOkAndHolds(i * 576 * kKiB));
  }
  EXPECT_EQ(policy.usage().held_bytes, 4 * kMiB);
  EXPECT_THAT(policy.Allocate(576 * kKiB, 0), IsOkAndHolds(4 * kMiB));
}

TEST(SlabPolicyTest, LargeRequestsGetTheFirstRunOfGranulesThatFits) {
  SlabPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(kMiB + 1, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(2 * kMiB));  // a slab
  ASSERT_THAT(policy.Allocate(3 * kMiB, 0), IsOkAndHolds(4 * kMiB));
  ASSERT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(8 * kMiB));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  FIRN_ASSERT_OK(policy.Free(4 * kMiB, 0));
  EXPECT_THAT(policy.Allocate(4 * kMiB, 0), IsOkAndHolds(4 * kMiB));
  EXPECT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(0u));
}

TEST(SlabPolicyTest, JoinsEmptySlabsWithFreeRuns) {
  SlabPolicy policy(Options(6 * kMiB));
  ASSERT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(2 * kMiB));
  ASSERT_THAT(policy.Allocate(1024, 0), IsOkAndHolds(4 * kMiB));
  EXPECT_THAT(policy.Allocate(2048, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  FIRN_ASSERT_OK(policy.Free(4 * kMiB, 0));
  EXPECT_THAT(policy.Allocate(4 * kMiB, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Free(2 * kMiB, 0));
  EXPECT_THAT(policy.Allocate(6 * kMiB, 0), IsOkAndHolds(0u));
}

TEST(SlabPolicyTest, ChargesTheDriverForItsHighWaterExtentAlone) {
  SlabPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(3 * kMiB, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(4 * kMiB));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  FIRN_ASSERT_OK(policy.Free(4 * kMiB, 0));
  ASSERT_THAT(policy.Allocate(6 * kMiB, 0), IsOkAndHolds(0u));
  const PolicyReport report = policy.Report();
  EXPECT_EQ(report.driver_calls.create, 3u);
  EXPECT_EQ(report.driver_calls.set_access, 2u);
  EXPECT_EQ(report.driver_calls.unmap, 0u);
  EXPECT_DOUBLE_EQ(report.driver_us_modelled, 3 * (8 + 1) + 2 * 20 + 3);
}

TEST(SlabPolicyTest, RefusesToFreeWhatIsNoBlock) {
  SlabPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(1024, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(4 * kMiB, 0), IsOkAndHolds(2 * kMiB));
  for (const uint64_t address : {uint64_t{512}, uint64_t{1024}, 4 * kMiB}) {
    EXPECT_THAT(policy.Free(address, 0),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  FIRN_ASSERT_OK(policy.Free(2 * kMiB, 0));
  EXPECT_THAT(policy.Free(2 * kMiB, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace firn::bench

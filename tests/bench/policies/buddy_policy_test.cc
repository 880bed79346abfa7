// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/buddy_policy.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;

constexpr uint64_t kMiB = uint64_t{1} << 20;

PolicyOptions Options(uint64_t capacity_bytes) {
  PolicyOptions options;
  options.capacity_bytes = capacity_bytes;
  return options;
}

TEST(BuddyPolicyTest, RoundsUpToPowersOfTwoAndAlignsToThem) {
  BuddyPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(1, 0), IsOkAndHolds(0u));
  // The block of 1 KiB beside it is the smallest that holds 513 bytes.
  EXPECT_THAT(policy.Allocate(513, 0), IsOkAndHolds(1024u));
  EXPECT_THAT(policy.Allocate(512, 0), IsOkAndHolds(512u));
  EXPECT_THAT(policy.Allocate(2049, 0), IsOkAndHolds(4096u));
}

TEST(BuddyPolicyTest, TakesTheSmallestFreeBlockThatIsLargeEnough) {
  BuddyPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(4096, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(4096u));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  // Of 512 bytes there is the rest of the split block, at 4608; the lower
  // block of 4 KiB is kept whole.
  EXPECT_THAT(policy.Allocate(512, 0), IsOkAndHolds(4608u));
}

TEST(BuddyPolicyTest, JoinsABlockWithItsXorBuddyOnly) {
  BuddyPolicy policy(Options(2 * kMiB));
  const uint64_t quarter = kMiB / 2;
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_THAT(policy.Allocate(quarter, 0), IsOkAndHolds(i * quarter));
  }
  // Neighbours, but halves of different blocks.
  FIRN_ASSERT_OK(policy.Free(1 * quarter, 0));
  FIRN_ASSERT_OK(policy.Free(2 * quarter, 0));
  EXPECT_THAT(policy.Allocate(kMiB, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Free(3 * quarter, 0));
  EXPECT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(kMiB));
}

TEST(BuddyPolicyTest, ACapacityThatIsNoPowerOfTwoIsSeveralTopLevelBlocks) {
  BuddyPolicy policy(Options(14 * kMiB));  // 8 + 4 + 2
  EXPECT_THAT(policy.Allocate(9 * kMiB, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(policy.Allocate(8 * kMiB, 0), IsOkAndHolds(0u));
  EXPECT_THAT(policy.Allocate(4 * kMiB, 0), IsOkAndHolds(8 * kMiB));
  EXPECT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(12 * kMiB));
  EXPECT_THAT(policy.Allocate(1, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Free(8 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(12 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_THAT(policy.Allocate(8 * kMiB, 0), IsOkAndHolds(0u));
}

TEST(BuddyPolicyTest, OpensATopLevelBlockOnlyWhenThoseBelowAreFull) {
  BuddyPolicy policy(Options(14 * kMiB));  // 8 + 4 + 2
  // Of 2 MiB there is a top-level block, but the arena grows from its bottom.
  EXPECT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(0u));
  EXPECT_THAT(policy.Allocate(6 * kMiB, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(policy.Allocate(4 * kMiB, 0), IsOkAndHolds(4 * kMiB));
  EXPECT_THAT(policy.Allocate(3 * kMiB, 0), IsOkAndHolds(8 * kMiB));
}

TEST(BuddyPolicyTest, UsesAndHoldsItsHighWaterExtent) {
  BuddyPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK(policy.Allocate(5 * kMiB, 0));  // 8 MiB
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_EQ(policy.usage().used_bytes, 8 * kMiB);
  EXPECT_EQ(policy.usage().held_bytes, 8 * kMiB);
}

TEST(BuddyPolicyTest, RefusesToFreeWhatIsNoBlock) {
  BuddyPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK(policy.Allocate(4096, 0));
  EXPECT_THAT(policy.Free(4096, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_THAT(policy.Free(0, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace firn::bench

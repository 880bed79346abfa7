// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "absl/status/status.h"
#include "bench/policies/arena_policy.h"
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

TEST(FreeListPolicyTest, TakesTheLowestHoleThatIsLargeEnough) {
  FreeListPolicy policy(Options(64 * kMiB));
  ASSERT_THAT(policy.Allocate(1024, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(4096, 0), IsOkAndHolds(1024u));
  ASSERT_THAT(policy.Allocate(512, 0), IsOkAndHolds(5120u));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_THAT(policy.Allocate(1025, 0), IsOkAndHolds(5632u));
  EXPECT_THAT(policy.Allocate(512, 0), IsOkAndHolds(0u));
}

TEST(FreeListPolicyTest, JoinsFreedNeighbours) {
  FreeListPolicy policy(Options(2 * kMiB));
  ASSERT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(0u));
  ASSERT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(kMiB));
  EXPECT_THAT(policy.Allocate(1, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  FIRN_ASSERT_OK(policy.Free(kMiB, 0));
  EXPECT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(0u));
}

TEST(FreeListPolicyTest, UsesAndHoldsItsHighWaterExtent) {
  FreeListPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK(policy.Allocate(3 * kMiB, 0));
  EXPECT_EQ(policy.usage().used_bytes, 4 * kMiB);
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_EQ(policy.usage().used_bytes, 4 * kMiB);
  EXPECT_EQ(policy.usage().held_bytes, 4 * kMiB);
  EXPECT_EQ(policy.usage().mapped_vgs, 2u);
  EXPECT_EQ(policy.Report().driver_calls.create, 2u);
  EXPECT_EQ(policy.Report().driver_calls.release, 0u);
}

TEST(FreeListPolicyTest, RefusesToFreeWhatIsNoBlock) {
  FreeListPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK(policy.Allocate(4096, 0));
  EXPECT_THAT(policy.Free(512, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_ASSERT_OK(policy.Free(0, 0));
  EXPECT_THAT(policy.Free(0, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace firn::bench

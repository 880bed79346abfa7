// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/ideal_policy.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;

constexpr uint64_t kGranule = uint64_t{2} << 20;

TEST(IdealPolicyTest, UsesTheLiveBytesInWholeGranules) {
  PolicyOptions options;
  options.capacity_bytes = 2 * kGranule;
  IdealPolicy policy(options);
  EXPECT_EQ(policy.usage().used_bytes, 0u);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(1, 0));
  EXPECT_EQ(policy.usage().used_bytes, kGranule);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b, policy.Allocate(kGranule, 0));
  EXPECT_EQ(policy.usage().used_bytes, 2 * kGranule);
  EXPECT_EQ(policy.usage().held_bytes, 2 * kGranule);
  EXPECT_EQ(policy.Report().lower_bound_bytes, 2 * kGranule);
  FIRN_ASSERT_OK(policy.Free(a, 0));
  EXPECT_EQ(policy.usage().used_bytes, kGranule);
  FIRN_ASSERT_OK(policy.Free(b, 0));
  EXPECT_EQ(policy.usage().used_bytes, 0u);
}

TEST(IdealPolicyTest, FailsOnlyWhenTheBytesThemselvesDoNotFit) {
  PolicyOptions options;
  options.capacity_bytes = kGranule;
  IdealPolicy policy(options);
  FIRN_ASSERT_OK(policy.Allocate(kGranule - 1, 0));
  EXPECT_THAT(policy.Allocate(2, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Allocate(1, 0));
}

TEST(IdealPolicyTest, RefusesToFreeWhatIsNoBlock) {
  IdealPolicy policy((PolicyOptions()));
  EXPECT_THAT(policy.Free(0, 0), StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(1, 0));
  FIRN_ASSERT_OK(policy.Free(a, 0));
  EXPECT_THAT(policy.Free(a, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace firn::bench

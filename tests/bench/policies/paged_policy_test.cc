// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/paged_policy.h"

#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGranule = 2048 * kKiB;

PolicyOptions Options(uint64_t granules) {
  PolicyOptions options;
  options.capacity_bytes = granules * kGranule;
  return options;
}

TEST(PagedPolicyTest, BlocksOfOneSizeShareAPage) {
  PagedPolicy policy(Options(8));
  for (uint64_t i = 0; i < 32; ++i) {
    ASSERT_THAT(policy.Allocate(64 * kKiB, 0), IsOkAndHolds(i * 64 * kKiB));
  }
  EXPECT_EQ(policy.usage().held_bytes, kGranule);
  EXPECT_THAT(policy.Allocate(64 * kKiB, 0), IsOkAndHolds(kGranule));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kGranule);
}

TEST(PagedPolicyTest, BlocksOfDifferentSizesNeverShareAPage) {
  PagedPolicy policy(Options(8));
  FIRN_ASSERT_OK(policy.Allocate(512, 0));
  FIRN_ASSERT_OK(policy.Allocate(1024, 0));
  EXPECT_EQ(policy.usage().used_bytes, 2 * kGranule);
}

TEST(PagedPolicyTest, FillsTheLowestPageWithRoomFirst) {
  PagedPolicy policy(Options(8));
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 6; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block,
                              policy.Allocate(kGranule / 2, 0));
    blocks.push_back(block);
  }
  FIRN_ASSERT_OK(policy.Free(blocks[4], 0));
  FIRN_ASSERT_OK(policy.Free(blocks[1], 0));
  EXPECT_THAT(policy.Allocate(kGranule / 2, 0), IsOkAndHolds(blocks[1]));
  EXPECT_THAT(policy.Allocate(kGranule / 2, 0), IsOkAndHolds(blocks[4]));
}

TEST(PagedPolicyTest, GivesAnEmptyPageBackAtOnce) {
  PagedPolicy policy(Options(8));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(4096, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b, policy.Allocate(4096, 0));
  FIRN_ASSERT_OK(policy.Free(a, 0));
  EXPECT_EQ(policy.usage().held_bytes, kGranule);
  FIRN_ASSERT_OK(policy.Free(b, 0));
  EXPECT_EQ(policy.usage().held_bytes, 0u);
  EXPECT_EQ(policy.Report().driver_calls.unmap, 1u);
  EXPECT_EQ(policy.Report().driver_calls.release, 1u);
  // Its number serves another size.
  EXPECT_THAT(policy.Allocate(8192, 0), IsOkAndHolds(0u));
}

TEST(PagedPolicyTest, ChargesEachPageForWhatItIs) {
  PolicyOptions options = Options(8);
  options.cost = CostProfile::kFast;
  PagedPolicy policy(options);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t small, policy.Allocate(512, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t large,
                            policy.Allocate(2 * kGranule, 0));
  FIRN_ASSERT_OK(policy.Free(small, 0));
  FIRN_ASSERT_OK(policy.Free(large, 0));
  // Create 8 us, map 1, access 20 a run and 1 a page, unmap 11.5, release 8.
  EXPECT_DOUBLE_EQ(policy.Report().driver_us_modelled,
                   3 * (8 + 1) + 2 * 20 + 3 + 3 * (11.5 + 8));
}

TEST(PagedPolicyTest, BlocksAboveHalfAPageGetWholePages) {
  PagedPolicy policy(Options(8));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a,
                            policy.Allocate(kGranule / 2 + 1, 0));
  EXPECT_EQ(policy.usage().held_bytes, kGranule);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b,
                            policy.Allocate(2 * kGranule + 1, 0));
  EXPECT_EQ(policy.usage().held_bytes, 4 * kGranule);
  EXPECT_EQ(policy.Report().driver_calls.create, 4u);
  EXPECT_EQ(policy.Report().driver_calls.set_access, 2u);
  FIRN_ASSERT_OK(policy.Free(a, 0));
  FIRN_ASSERT_OK(policy.Free(b, 0));
  EXPECT_EQ(policy.usage().held_bytes, 0u);
}

TEST(PagedPolicyTest, OpensNoMorePagesThanTheCapacityHas) {
  PagedPolicy policy(Options(2));
  FIRN_ASSERT_OK(policy.Allocate(512, 0));
  EXPECT_THAT(policy.Allocate(kGranule + 1, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Allocate(kGranule, 0));
  EXPECT_THAT(policy.Allocate(1024, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_EXPECT_OK(policy.Allocate(512, 0));
}

TEST(PagedPolicyTest, RefusesToFreeWhatIsNoBlock) {
  PagedPolicy policy(Options(8));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t small, policy.Allocate(1024, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t large, policy.Allocate(kGranule, 0));
  for (const uint64_t address : {small + 512, small + 1024, small + kGranule,
                                 large + 512, large + kGranule}) {
    EXPECT_THAT(policy.Free(address, 0),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  FIRN_ASSERT_OK(policy.Free(small, 0));
  FIRN_ASSERT_OK(policy.Free(large, 0));
  EXPECT_THAT(policy.Free(small, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(policy.Free(large, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace firn::bench

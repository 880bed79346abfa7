// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/tiered_policy.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/bench/policies/policy_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;

TEST(TieredPolicyTest, BuddiesBeginAtExactlyOneMiB) {
  TieredPolicy policy(Options(1024 * kMiB));
  FIRN_ASSERT_OK(policy.Allocate(kMiB - 1, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kMiB);  // a slab
  FIRN_ASSERT_OK(policy.Allocate(kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 34 * kMiB);  // and a chunk
  EXPECT_EQ(policy.usage().used_bytes, 4 * kMiB);
}

TEST(TieredPolicyTest, BuddiesEndAtExactly256MiB) {
  TieredPolicy policy(Options(1024 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t buddy,
                            policy.Allocate(256 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t direct,
                            policy.Allocate(256 * kMiB + 1, 0));
  EXPECT_EQ(policy.usage().held_bytes, (256 + 258) * kMiB);
  EXPECT_EQ(policy.usage().used_bytes, (256 + 258) * kMiB);
  FIRN_ASSERT_OK(policy.Free(buddy, 0));
  EXPECT_EQ(policy.Report().driver_calls.release, 0u);
  FIRN_ASSERT_OK(policy.Free(direct, 0));
  EXPECT_EQ(policy.Report().driver_calls.unmap, 129u);
  EXPECT_EQ(policy.Report().driver_calls.release, 129u);
  EXPECT_EQ(policy.usage().held_bytes, 256 * kMiB);
  EXPECT_EQ(policy.usage().used_bytes, 0u);
}

TEST(TieredPolicyTest, ChunksOfTheLargestSizeDoNotJoin) {
  TieredPolicy policy(Options(1024 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(256 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b, policy.Allocate(200 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(a, 0));
  FIRN_ASSERT_OK(policy.Free(b, 0));
  // Each is given back for a block that needs all of the capacity.
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t all,
                            policy.Allocate(1024 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(all, 0));
  EXPECT_EQ(policy.usage().held_bytes, 0u);
}

TEST(TieredPolicyTest, MiddleSizedBlocksAreBuddiesOfAChunk) {
  TieredPolicy policy(Options(1024 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(5 * kMiB, 0));
  EXPECT_THAT(policy.Allocate(8 * kMiB, 0), IsOkAndHolds(a + 8 * kMiB));
  EXPECT_THAT(policy.Allocate(9 * kMiB, 0), IsOkAndHolds(a + 16 * kMiB));
  // 3 + 4 + 5 granules have a live byte.
  EXPECT_EQ(policy.usage().used_bytes, 24 * kMiB);
  EXPECT_EQ(policy.usage().held_bytes, 32 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(1 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 64 * kMiB);
}

TEST(TieredPolicyTest, TwoBlocksOfOneMiBUseOneGranule) {
  TieredPolicy policy(Options(1024 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b, policy.Allocate(kMiB, 0));
  EXPECT_EQ(b, a + kMiB);
  EXPECT_EQ(policy.usage().used_bytes, 2 * kMiB);
  FIRN_ASSERT_OK(policy.Free(a, 0));
  EXPECT_EQ(policy.usage().used_bytes, 2 * kMiB);
  FIRN_ASSERT_OK(policy.Free(b, 0));
  EXPECT_EQ(policy.usage().used_bytes, 0u);
}

TEST(TieredPolicyTest, AFreeChunkIsGivenBackWhenADirectBlockNeedsIt) {
  TieredPolicy policy(Options(300 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t buddy,
                            policy.Allocate(200 * kMiB, 0));
  EXPECT_THAT(policy.Allocate(260 * kMiB, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Free(buddy, 0));
  EXPECT_EQ(policy.usage().held_bytes, 256 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(260 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 260 * kMiB);
  EXPECT_EQ(policy.Report().driver_calls.release, 128u);
}

TEST(TieredPolicyTest, AChunkWithALiveBlockIsNot) {
  TieredPolicy policy(Options(300 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(128 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b, policy.Allocate(kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(a, 0));
  // 128 MiB can be given back and 140 are free, but 32 hold the other block.
  EXPECT_THAT(policy.Allocate(270 * kMiB, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(policy.Report().driver_calls.release, 0u);
  FIRN_ASSERT_OK(policy.Allocate(268 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 300 * kMiB);
  FIRN_ASSERT_OK(policy.Free(b, 0));
}

TEST(TieredPolicyTest, AnEmptySlabIsKeptAndThenGivenBackForABuddy) {
  TieredPolicy policy(Options(4 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(512, 0));
  FIRN_ASSERT_OK(policy.Free(a, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kMiB);
  EXPECT_EQ(policy.usage().used_bytes, 0u);
  // Another class takes it over.
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b, policy.Allocate(1024, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kMiB);
  FIRN_ASSERT_OK(policy.Free(b, 0));
  FIRN_ASSERT_OK(policy.Allocate(4 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 4 * kMiB);
  const PolicyReport report = policy.Report();
  EXPECT_EQ(report.driver_calls.create, 3u);
  EXPECT_EQ(report.driver_calls.set_access, 2u);
  EXPECT_EQ(report.driver_calls.unmap, 1u);
  EXPECT_EQ(report.driver_calls.release, 1u);
  // create 8, map 1, access 20 + 1 a granule, unmap 11.5, release 8.
  EXPECT_DOUBLE_EQ(report.driver_us_modelled,
                   3 * (8 + 1) + 2 * 20 + 3 + 11.5 + 8);
}

TEST(TieredPolicyTest, AFreeChunkIsGivenBackForASlab) {
  TieredPolicy policy(Options(32 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 32 * kMiB);
  EXPECT_THAT(policy.Allocate(512, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Free(a, 0));
  FIRN_ASSERT_OK(policy.Allocate(512, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kMiB);
}

TEST(TieredPolicyTest, ChunksAreSmallerWhereLittleOfTheCapacityIsLeft) {
  TieredPolicy policy(Options(22 * kMiB));
  for (uint64_t i = 0; i < 16; ++i) FIRN_ASSERT_OK(policy.Allocate(kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 16 * kMiB);
  for (uint64_t i = 0; i < 4; ++i) FIRN_ASSERT_OK(policy.Allocate(kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 20 * kMiB);
  for (uint64_t i = 0; i < 2; ++i) FIRN_ASSERT_OK(policy.Allocate(kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 22 * kMiB);
  EXPECT_THAT(policy.Allocate(kMiB, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(TieredPolicyTest, WorksWithGranulesLargerThanItsChunks) {
  PolicyOptions options = Options(1024 * kMiB);
  options.granule_bytes = 512 * kMiB;
  TieredPolicy policy(options);
  FIRN_ASSERT_OK(policy.Allocate(512, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 1024 * kMiB);
  EXPECT_THAT(policy.Allocate(257 * kMiB, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Free(a, 0));
  FIRN_EXPECT_OK(policy.Allocate(257 * kMiB, 0));
}

TEST(TieredPolicyTest, RefusesToFreeWhatIsNoBlock) {
  TieredPolicy policy(Options(1024 * kMiB));
  for (const uint64_t bytes : {uint64_t{1024}, 4 * kMiB, 300 * kMiB}) {
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block, policy.Allocate(bytes, 0));
    EXPECT_THAT(policy.Free(block + 512, 0),
                StatusIs(absl::StatusCode::kInvalidArgument));
    FIRN_ASSERT_OK(policy.Free(block, 0));
    EXPECT_THAT(policy.Free(block, 0),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_EQ(policy.usage().used_bytes, 0u);
}

}  // namespace
}  // namespace firn::bench

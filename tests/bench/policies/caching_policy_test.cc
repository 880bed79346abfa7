// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/caching_policy.h"

#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/bench/policies/policy_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;

// Allocates and frees: leaves a segment in the cache.
void Cache(CachingPolicy* policy, uint64_t bytes, uint32_t stream = 0) {
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block,
                            policy->Allocate(bytes, stream));
  FIRN_ASSERT_OK(policy->Free(block, stream));
}

TEST(CachingPolicyTest, SmallAndLargeBlocksComeFromSegmentsOfTheirOwn) {
  CachingPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK(policy.Allocate(512, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(kMiB + 1, 0));
  EXPECT_EQ(policy.usage().held_bytes, 22 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(11 * kMiB, 0));
  // The rest of the segment of 20 MiB was enough for it.
  EXPECT_EQ(policy.usage().held_bytes, 22 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(11 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 34 * kMiB);
}

TEST(CachingPolicyTest, ASegmentIsUsedWhileAnyByteOfItIsLive) {
  CachingPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t first, policy.Allocate(3 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t second,
                            policy.Allocate(3 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(first, 0));
  EXPECT_EQ(policy.usage().used_bytes, 20 * kMiB);
  FIRN_ASSERT_OK(policy.Free(second, 0));
  EXPECT_EQ(policy.usage().used_bytes, 0u);
  EXPECT_EQ(policy.usage().held_bytes, 20 * kMiB);
  EXPECT_EQ(policy.usage().mapped_vgs, 10u);
}

TEST(CachingPolicyTest, ASmallBlockIsSplitDownToTheLast512Bytes) {
  CachingPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t first, policy.Allocate(kMiB, 0));
  EXPECT_THAT(policy.Allocate(kMiB - 512, 0), IsOkAndHolds(first + kMiB));
  EXPECT_THAT(policy.Allocate(1, 0), IsOkAndHolds(first + 2 * kMiB - 512));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kMiB);
}

TEST(CachingPolicyTest, ALargeBlockIsSplitIfMoreThanOneMiBIsLeft) {
  CachingPolicy policy(Options(64 * kMiB));
  // 20 MiB for 19: the rest of exactly 1 MiB stays with the block.
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t whole,
                            policy.Allocate(19 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(whole, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block,
                            policy.Allocate(19 * kMiB - 512, 0));
  EXPECT_EQ(block, whole);
  // 1 MiB + 512 bytes are left and serve a block of that size.
  EXPECT_THAT(policy.Allocate(kMiB + 512, 0),
              IsOkAndHolds(whole + 19 * kMiB - 512));
  FIRN_ASSERT_OK(policy.Allocate(19 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 40 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(kMiB + 512, 0));
  EXPECT_EQ(policy.usage().held_bytes, 60 * kMiB);
}

TEST(CachingPolicyTest, TheSmallestBlockThatFitsIsTakenThenTheLowest) {
  CachingPolicy policy(Options(64 * kMiB));
  std::vector<uint64_t> blocks;
  for (const uint64_t kib : {256u, 64u, 128u, 64u, 128u, 64u}) {
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block,
                              policy.Allocate(kib * kKiB, 0));
    blocks.push_back(block);
  }
  for (const size_t i : {0u, 4u, 2u}) FIRN_ASSERT_OK(policy.Free(blocks[i], 0));
  EXPECT_THAT(policy.Allocate(100 * kKiB, 0), IsOkAndHolds(blocks[2]));
  EXPECT_THAT(policy.Allocate(100 * kKiB, 0), IsOkAndHolds(blocks[4]));
  // The rests of 28 KiB are too small, the hole of 256 KiB is next.
  EXPECT_THAT(policy.Allocate(100 * kKiB, 0), IsOkAndHolds(blocks[0]));
}

TEST(CachingPolicyTest, AFreedBlockIsJoinedWithBothNeighbours) {
  CachingPolicy policy(Options(64 * kMiB));
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 4; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block,
                              policy.Allocate(512 * kKiB, 0));
    blocks.push_back(block);
  }
  FIRN_ASSERT_OK(policy.Free(blocks[0], 0));
  FIRN_ASSERT_OK(policy.Free(blocks[2], 0));
  // Two holes of 512 KiB do not hold 1 MiB.
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t other, policy.Allocate(kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(other, 0));
  EXPECT_EQ(policy.usage().held_bytes, 4 * kMiB);
  FIRN_ASSERT_OK(policy.Free(blocks[1], 0));
  // The hole of 1.5 MiB fits better than the free segment of 2 MiB.
  EXPECT_THAT(policy.Allocate(kMiB, 0), IsOkAndHolds(blocks[0]));
  EXPECT_THAT(policy.Allocate(512 * kKiB, 0), IsOkAndHolds(blocks[0] + kMiB));
}

TEST(CachingPolicyTest, BlocksOfDifferentSegmentsAreNotJoined) {
  CachingPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t low, policy.Allocate(20 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t high, policy.Allocate(20 * kMiB, 0));
  ASSERT_EQ(high, low + 20 * kMiB);
  FIRN_ASSERT_OK(policy.Free(low, 0));
  FIRN_ASSERT_OK(policy.Free(high, 0));
  // Only 24 MiB are left of the capacity: both have to go for 40.
  FIRN_ASSERT_OK(policy.Allocate(40 * kMiB, 0));
  EXPECT_EQ(policy.Report().driver_calls.release, 20u);
  EXPECT_EQ(policy.usage().held_bytes, 40 * kMiB);
}

TEST(CachingPolicyTest, ABlockServesOnlyTheStreamItWasAllocatedFor) {
  CachingPolicy policy(Options(64 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block, policy.Allocate(512, 1));
  FIRN_ASSERT_OK(policy.Free(block, 2));
  FIRN_ASSERT_OK(policy.Allocate(512, 2));
  EXPECT_EQ(policy.usage().held_bytes, 4 * kMiB);
  EXPECT_THAT(policy.Allocate(512, 1), IsOkAndHolds(block));
  EXPECT_EQ(policy.usage().held_bytes, 4 * kMiB);
}

TEST(CachingPolicyTest, AFullDeviceMakesItReleaseTheFreeSegmentsOfAllStreams) {
  CachingPolicy policy(Options(44 * kMiB));
  Cache(&policy, 20 * kMiB, 0);
  Cache(&policy, 512, 1);
  ASSERT_EQ(policy.usage().held_bytes, 22 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(24 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 24 * kMiB);
  EXPECT_EQ(policy.Report().driver_calls.release, 11u);
  EXPECT_EQ(policy.Report().driver_calls.unmap, 11u);
}

TEST(CachingPolicyTest, ASegmentWithALiveBlockIsNotReleased) {
  CachingPolicy policy(Options(30 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t first, policy.Allocate(2 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Allocate(2 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(first, 0));
  EXPECT_THAT(policy.Allocate(20 * kMiB, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(policy.usage().held_bytes, 20 * kMiB);
  // 10 MiB are left, but another block of 1.5 MiB on another stream would need
  // a segment of 20.
  EXPECT_THAT(policy.Allocate(kMiB + 512 * kKiB, 1),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_EXPECT_OK(policy.Allocate(10 * kMiB, 1));
}

CachingOptions SplitLimit(uint64_t bytes) {
  CachingOptions caching;
  caching.max_split_bytes = bytes;
  return caching;
}

TEST(CachingPolicyTest, AnOversizeBlockServesOnlyOversizeRequests) {
  CachingPolicy policy(Options(400 * kMiB), SplitLimit(32 * kMiB));
  Cache(&policy, 40 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(24 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 64 * kMiB);
  // 4 MiB to spare, not split off.
  FIRN_ASSERT_OK(policy.Allocate(36 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 64 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(2 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 84 * kMiB);
}

TEST(CachingPolicyTest, AnOversizeBlockIsNotWastedOnMuchSmallerRequests) {
  CachingPolicy policy(Options(400 * kMiB), SplitLimit(32 * kMiB));
  Cache(&policy, 60 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(40 * kMiB, 0));  // 20 MiB to spare
  EXPECT_EQ(policy.usage().held_bytes, 100 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(40 * kMiB + 512, 0));
  EXPECT_EQ(policy.usage().held_bytes, 100 * kMiB);
}

TEST(CachingPolicyTest, AnAvailableOversizeSegmentIsReleasedFirst) {
  CachingPolicy policy(Options(100 * kMiB), SplitLimit(32 * kMiB));
  Cache(&policy, 60 * kMiB);
  Cache(&policy, 20 * kMiB);
  ASSERT_EQ(policy.usage().held_bytes, 80 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(38 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 58 * kMiB);
  EXPECT_EQ(policy.Report().driver_calls.release, 30u);
}

TEST(CachingPolicyTest, SeveralOversizeSegmentsAreReleasedFromTheLargest) {
  CachingPolicy policy(Options(140 * kMiB), SplitLimit(32 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(32 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b, policy.Allocate(34 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t c, policy.Allocate(36 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t d, policy.Allocate(20 * kMiB, 0));
  for (const uint64_t block : {a, b, c, d}) {
    FIRN_ASSERT_OK(policy.Free(block, 0));
  }
  ASSERT_EQ(policy.usage().held_bytes, 122 * kMiB);
  // 36 + 34 MiB are enough for 64; 32 and 20 stay.
  FIRN_ASSERT_OK(policy.Allocate(64 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, (32 + 20 + 64) * kMiB);
}

TEST(CachingPolicyTest, WithoutASplitLimitAllFreeSegmentsAreReleased) {
  CachingPolicy policy(Options(100 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(60 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b, policy.Allocate(20 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(a, 0));
  FIRN_ASSERT_OK(policy.Free(b, 0));
  FIRN_ASSERT_OK(policy.Allocate(62 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 62 * kMiB);
}

TEST(CachingPolicyTest, GarbageCollectionReleasesWhatHasBeenFreeForLong) {
  CachingOptions caching;
  caching.garbage_collection_threshold = 0.9;
  CachingPolicy policy(Options(100 * kMiB), caching);
  // Requests of large blocks are numbered from 1.
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(20 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b, policy.Allocate(20 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Allocate(12 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(a, 0));              // free since request 3
  FIRN_ASSERT_OK(policy.Allocate(22 * kMiB, 0));  // request 4
  FIRN_ASSERT_OK(policy.Free(b, 0));              // free since request 4
  FIRN_ASSERT_OK(policy.Allocate(24 * kMiB, 0));  // request 5
  ASSERT_EQ(policy.usage().held_bytes, 98 * kMiB);
  // Request 6: 98 MiB are more than 90. Of the ages 3 and 2, 3 is at least the
  // mean: `a` goes, which suffices, `b` stays.
  FIRN_ASSERT_OK(policy.Allocate(22 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 100 * kMiB);
  EXPECT_EQ(policy.usage().used_bytes, 80 * kMiB);
  EXPECT_EQ(policy.Report().driver_calls.release, 10u);
}

TEST(CachingPolicyTest, BelowTheThresholdNoGarbageIsCollected) {
  CachingOptions caching;
  caching.garbage_collection_threshold = 0.5;
  CachingPolicy policy(Options(100 * kMiB), caching);
  Cache(&policy, 20 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(22 * kMiB, 0));  // 20 MiB held before
  FIRN_ASSERT_OK(policy.Allocate(22 * kMiB, 0));  // 42 MiB held before
  EXPECT_EQ(policy.usage().held_bytes, 64 * kMiB);
  FIRN_ASSERT_OK(policy.Allocate(22 * kMiB, 0));  // 64 MiB held before
  EXPECT_EQ(policy.usage().held_bytes, 66 * kMiB);
}

TEST(CachingPolicyTest, PowerTwoDivisionsLetUnequalRequestsShareABlock) {
  CachingOptions caching;
  caching.roundup_power2_divisions = 4;
  CachingPolicy policy(Options(64 * kMiB), caching);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t first, policy.Allocate(4097, 0));
  EXPECT_THAT(policy.Allocate(5000, 0), IsOkAndHolds(first + 5120));
  EXPECT_THAT(policy.Allocate(512, 0), IsOkAndHolds(first + 2 * 5120));
}

TEST(CachingPolicyTest, ASegmentIsChargedAsARunOfGranules) {
  CachingPolicy policy(Options(24 * kMiB));
  Cache(&policy, 2 * kMiB);               // 10 granules
  FIRN_ASSERT_OK(policy.Allocate(1, 0));  // 1
  // 12 granules: the free ones have to go, the small one's stays.
  EXPECT_THAT(policy.Allocate(24 * kMiB, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  FIRN_ASSERT_OK(policy.Allocate(22 * kMiB, 0));  // 11
  const PolicyReport report = policy.Report();
  EXPECT_EQ(report.driver_calls.create, 22u);
  EXPECT_EQ(report.driver_calls.map, 22u);
  EXPECT_EQ(report.driver_calls.set_access, 3u);
  EXPECT_EQ(report.driver_calls.unmap, 10u);
  EXPECT_EQ(report.driver_calls.release, 10u);
  // 8 us a create, 1 a map, 20 a set-access and 1 a granule in it, 11.5 an
  // unmap, 8 a release.
  EXPECT_DOUBLE_EQ(report.driver_us_create, 22 * 8);
  EXPECT_DOUBLE_EQ(report.driver_us_modelled,
                   22 * 8 + 22 * 1 + 3 * 20 + 22 * 1 + 10 * 11.5 + 10 * 8);
}

TEST(CachingPolicyTest, RefusesToFreeWhatIsNoBlock) {
  CachingPolicy policy(Options(64 * kMiB));
  EXPECT_THAT(policy.Free(512, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block, policy.Allocate(1024, 0));
  EXPECT_THAT(policy.Free(block + 512, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_ASSERT_OK(policy.Free(block, 0));
  EXPECT_THAT(policy.Free(block, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

class RandomCachingPolicyTest
    : public ::testing::TestWithParam<CachingOptions> {};

TEST_P(RandomCachingPolicyTest, KeepsBlocksApartAndReleasesAllInTheEnd) {
  constexpr uint64_t kCapacity = 256 * kMiB;
  CachingPolicy policy(Options(kCapacity), GetParam());
  RandomBlocks run;
  run.seed = 7;
  run.steps = 30'000;
  run.streams = 3;
  run.capacity_bytes = kCapacity;
  ASSERT_NO_FATAL_FAILURE(RunRandomBlocks(run, &policy));
  EXPECT_EQ(policy.usage().used_bytes, 0u);
  // Nothing stands in the way of a block as large as the device.
  FIRN_ASSERT_OK(policy.Allocate(kCapacity, 9));
  const PolicyReport report = policy.Report();
  EXPECT_EQ(report.driver_calls.create - report.driver_calls.release,
            kCapacity / (2 * kMiB));
  EXPECT_EQ(report.driver_calls.release, report.driver_calls.unmap);
  EXPECT_EQ(report.lower_bound_bytes, kCapacity);
}

const char* OptionsName(const ::testing::TestParamInfo<CachingOptions>& param) {
  constexpr const char* kNames[] = {
      "Defaults", "SplitLimit", "SplitLimitAndGarbage", "GarbageAndDivisions"};
  return kNames[param.index];
}

INSTANTIATE_TEST_SUITE_P(
    Options, RandomCachingPolicyTest,
    ::testing::Values(CachingOptions(), SplitLimit(32 * kMiB),
                      CachingOptions{21 * kMiB, 0.5, 0},
                      CachingOptions{~uint64_t{0}, 0.8, 8}),
    &OptionsName);

}  // namespace
}  // namespace firn::bench

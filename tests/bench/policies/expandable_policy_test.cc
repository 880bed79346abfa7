// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/expandable_policy.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGranule = 2 * kMiB;
constexpr uint64_t kCapacity = 64 * kMiB;

PolicyOptions Options(uint64_t capacity_bytes = kCapacity) {
  PolicyOptions options;
  options.capacity_bytes = capacity_bytes;
  return options;
}

TEST(ExpandablePolicyTest, MapsTheGranulesABlockNeedsFromTheBottom) {
  ExpandablePolicy policy(Options());
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t first, policy.Allocate(3 * kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kGranule);
  // The rest of the second granule serves the next block's beginning.
  EXPECT_THAT(policy.Allocate(2 * kMiB, 0), IsOkAndHolds(first + 3 * kMiB));
  EXPECT_EQ(policy.usage().held_bytes, 3 * kGranule);
  EXPECT_EQ(policy.usage().used_bytes, 3 * kGranule);
}

TEST(ExpandablePolicyTest, SmallAndLargeBlocksComeFromDifferentPools) {
  ExpandablePolicy policy(Options());
  FIRN_ASSERT_OK(policy.Allocate(kMiB, 0));      // small
  FIRN_ASSERT_OK(policy.Allocate(kMiB + 1, 0));  // large
  EXPECT_EQ(policy.usage().held_bytes, 2 * kGranule);
  FIRN_ASSERT_OK(policy.Allocate(kMiB, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kGranule);
}

TEST(ExpandablePolicyTest, EachStreamHasItsOwnPools) {
  ExpandablePolicy policy(Options());
  FIRN_ASSERT_OK(policy.Allocate(512, 1));
  FIRN_ASSERT_OK(policy.Allocate(512, 2));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kGranule);
}

TEST(ExpandablePolicyTest, EmptyGranulesAreUnmappedAndReleasedAtOnce) {
  ExpandablePolicy policy(Options());
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t low, policy.Allocate(3 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t middle,
                            policy.Allocate(6 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Allocate(3 * kMiB, 0));
  ASSERT_EQ(policy.usage().held_bytes, 6 * kGranule);
  // [3, 9) MiB: granules [4, 6) and [6, 8) MiB hold nothing else.
  FIRN_ASSERT_OK(policy.Free(middle, 0));
  EXPECT_EQ(policy.usage().held_bytes, 4 * kGranule);
  // [0, 3) MiB and the free rest up to 4 MiB go with it.
  FIRN_ASSERT_OK(policy.Free(low, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kGranule);
  const DriverCallCounts calls = policy.Report().driver_calls;
  EXPECT_EQ(calls.create, 6u);
  EXPECT_EQ(calls.map, 6u);
  EXPECT_EQ(calls.set_access, 3u);
  EXPECT_EQ(calls.unmap, 4u);
  EXPECT_EQ(calls.release, 4u);
}

TEST(ExpandablePolicyTest, ABlockThatEndsOnAGranuleReleasesIt) {
  ExpandablePolicy policy(Options());
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t first, policy.Allocate(kGranule, 0));
  FIRN_ASSERT_OK(policy.Allocate(kGranule, 0));
  FIRN_ASSERT_OK(policy.Free(first, 0));
  EXPECT_EQ(policy.usage().held_bytes, kGranule);
}

TEST(ExpandablePolicyTest, TakesTheSmallestMappedPieceThatFits) {
  ExpandablePolicy policy(Options());
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t a, policy.Allocate(256 * kKiB, 0));
  FIRN_ASSERT_OK(policy.Allocate(64 * kKiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t b, policy.Allocate(128 * kKiB, 0));
  FIRN_ASSERT_OK(policy.Allocate(64 * kKiB, 0));
  FIRN_ASSERT_OK(policy.Free(a, 0));
  FIRN_ASSERT_OK(policy.Free(b, 0));
  EXPECT_THAT(policy.Allocate(100 * kKiB, 0), IsOkAndHolds(b));
  EXPECT_THAT(policy.Allocate(200 * kKiB, 0), IsOkAndHolds(a));
}

TEST(ExpandablePolicyTest, APieceThatCanExpandCountsAsLargeAsItCanBecome) {
  ExpandablePolicy policy(Options());
  // Large blocks. Free pieces: 1 MiB + 512 KiB between two blocks, and the
  // last granule's 1 MiB and 256 KiB, above which addresses are unmapped.
  FIRN_ASSERT_OK(policy.Allocate(2 * kMiB, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t hole,
                            policy.Allocate(kMiB + 512 * kKiB, 0));
  FIRN_ASSERT_OK(policy.Allocate(5 * kMiB + 256 * kKiB, 0));
  FIRN_ASSERT_OK(policy.Free(hole, 0));
  EXPECT_THAT(policy.Allocate(kMiB + 4096, 0), IsOkAndHolds(hole));
}

TEST(ExpandablePolicyTest, RefillsUnmappedHolesFromTheBottom) {
  ExpandablePolicy policy(Options());
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t hole, policy.Allocate(8 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Allocate(2 * kMiB, 0));
  FIRN_ASSERT_OK(policy.Free(hole, 0));
  EXPECT_THAT(policy.Allocate(6 * kMiB, 0), IsOkAndHolds(hole));
  EXPECT_EQ(policy.usage().held_bytes, 8 * kMiB);
}

TEST(ExpandablePolicyTest, MapsNoMoreThanTheCapacity) {
  ExpandablePolicy policy(Options(4 * kGranule));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block,
                            policy.Allocate(3 * kGranule, 0));
  EXPECT_THAT(policy.Allocate(kGranule + 1, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(policy.usage().held_bytes, 3 * kGranule);
  FIRN_ASSERT_OK(policy.Allocate(kGranule, 0));
  FIRN_ASSERT_OK(policy.Free(block, 0));
  FIRN_EXPECT_OK(policy.Allocate(3 * kGranule, 0));
}

TEST(ExpandablePolicyTest, RefusesToFreeWhatIsNoBlock) {
  ExpandablePolicy policy(Options());
  EXPECT_THAT(policy.Free(512, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace firn::bench

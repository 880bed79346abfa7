// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/expandable_policy.h"

#include <map>
#include <random>

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

TEST(ExpandablePolicyTest, WhatOneStreamFreesServesNoOther) {
  ExpandablePolicy policy(Options());
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t first, policy.Allocate(kMiB, 1));
  FIRN_ASSERT_OK(policy.Allocate(512, 1));
  // Freed by stream 2, the block is still that of stream 1.
  FIRN_ASSERT_OK(policy.Free(first, 2));
  FIRN_ASSERT_OK(policy.Allocate(kMiB, 2));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kGranule);
  EXPECT_THAT(policy.Allocate(kMiB, 1), IsOkAndHolds(first));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kGranule);
}

TEST(ExpandablePolicyTest, ReleasedGranulesServeEveryStream) {
  ExpandablePolicy policy(Options(4 * kGranule));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block,
                            policy.Allocate(4 * kGranule, 1));
  FIRN_ASSERT_OK(policy.Free(block, 1));
  FIRN_EXPECT_OK(policy.Allocate(4 * kGranule, 2));
}

TEST(ExpandablePolicyTest, ChargesOneAccessCallForEachRangeItMaps) {
  PolicyOptions options = Options();
  options.cost = CostProfile::kFast;
  ExpandablePolicy policy(options);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t first, policy.Allocate(5 * kMiB, 0));
  // Out of the rest of the third granule.
  FIRN_ASSERT_OK(policy.Allocate(kMiB + 1, 0));
  FIRN_ASSERT_OK(policy.Allocate(512, 0));
  FIRN_ASSERT_OK(policy.Free(first, 0));  // two granules
  const PolicyReport report = policy.Report();
  EXPECT_EQ(report.driver_calls.create, 5u);
  EXPECT_EQ(report.driver_calls.set_access, 3u);
  EXPECT_EQ(report.driver_calls.unmap, 2u);
  // 8 us a create, 1 a map, 20 a set-access and 1 a granule in it, 11.5 an
  // unmap, 8 a release.
  EXPECT_DOUBLE_EQ(report.driver_us_modelled,
                   5 * 8 + 5 * 1 + 3 * 20 + 5 * 1 + 2 * 11.5 + 2 * 8);
}

TEST(ExpandablePolicyTest, HoldsExactlyTheGranulesWithLiveBytes) {
  constexpr uint64_t kGranules = 64;
  ExpandablePolicy policy(Options(kGranules * kGranule));
  std::map<uint64_t, uint64_t> blocks;  // bytes by address
  std::map<uint64_t, int> granules;     // blocks in it, by number
  const auto count = [&](uint64_t address, uint64_t bytes, int change) {
    const uint64_t end = (address + bytes + kGranule - 1) / kGranule;
    for (uint64_t g = address / kGranule; g < end; ++g) {
      if ((granules[g] += change) == 0) granules.erase(g);
    }
  };
  uint64_t failed = 0;
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    const auto stream = static_cast<uint32_t>(random() % 3);
    if (blocks.empty() || random() % 100 < 53) {
      // Whole units of 512 bytes, so that the shadow knows the extent.
      const uint64_t bytes =
          512 * (1 + random() % (uint64_t{1} << (random() % 15)));
      const absl::StatusOr<uint64_t> address = policy.Allocate(bytes, stream);
      if (!address.ok()) {
        ++failed;
        continue;
      }
      const auto [block, is_new] = blocks.emplace(*address, bytes);
      ASSERT_TRUE(is_new);
      if (const auto next = std::next(block); next != blocks.end()) {
        ASSERT_LE(*address + bytes, next->first);
      }
      if (block != blocks.begin()) {
        const auto previous = std::prev(block);
        ASSERT_LE(previous->first + previous->second, *address);
      }
      count(*address, bytes, 1);
    } else {
      auto block = blocks.begin();
      std::advance(block, random() % blocks.size());
      FIRN_ASSERT_OK(policy.Free(block->first, stream));
      count(block->first, block->second, -1);
      blocks.erase(block);
    }
    const PolicyUsage usage = policy.usage();
    ASSERT_EQ(usage.held_bytes, granules.size() * kGranule);
    ASSERT_EQ(usage.used_bytes, usage.held_bytes);
    ASSERT_LE(usage.held_bytes, kGranules * kGranule);
  }
  EXPECT_GT(failed, 0u);
  for (const auto& [address, bytes] : blocks) {
    FIRN_ASSERT_OK(policy.Free(address, 0));
  }
  EXPECT_EQ(policy.usage().held_bytes, 0u);
}

TEST(ExpandablePolicyTest, RefusesToFreeWhatIsNoBlock) {
  ExpandablePolicy policy(Options());
  EXPECT_THAT(policy.Free(512, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace firn::bench

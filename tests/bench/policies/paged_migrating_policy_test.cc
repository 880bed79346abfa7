// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/paged_migrating_policy.h"

#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kPage = 2048 * kKiB;

PolicyOptions Options(uint64_t pages,
                      CompactionMode compaction = CompactionMode::kOnDemand) {
  PolicyOptions options;
  options.capacity_bytes = pages * kPage;
  options.compaction = compaction;
  options.cost = CostProfile::kFast;
  return options;
}

// `count` new blocks of `bytes` each, in order.
std::vector<uint64_t> Fill(PagedMigratingPolicy* policy, int count,
                           uint64_t bytes) {
  std::vector<uint64_t> blocks;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<uint64_t> block = policy->Allocate(bytes, 0);
    EXPECT_THAT(block, testing::IsOk());
    if (block.ok()) blocks.push_back(*block);
  }
  return blocks;
}

TEST(PagedMigratingPolicyTest, EmptiesAPageWhenAnAllocationLacksOne) {
  PagedMigratingPolicy policy(Options(2));
  const std::vector<uint64_t> blocks = Fill(&policy, 8, kPage / 4);
  for (const size_t i : {0u, 1u, 5u, 6u})
    FIRN_ASSERT_OK(policy.Free(blocks[i], 0));
  FIRN_ASSERT_OK(policy.Allocate(kPage / 8, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kPage);
  const PolicyReport report = policy.Report();
  EXPECT_EQ(report.bytes_copied, 2 * kPage / 4);
  EXPECT_EQ(report.granules_moved, 1u);
  EXPECT_EQ(report.bytes_recovered, kPage);
  // The page stays mapped and serves the other class.
  EXPECT_EQ(report.driver_calls.create, 2u);
  EXPECT_EQ(report.driver_calls.unmap, 0u);
  EXPECT_EQ(report.driver_calls.release, 0u);
  // One launch 5 us, and 1.4e6 bytes a us.
  ASSERT_EQ(report.pause_us.size(), 1u);
  EXPECT_NEAR(report.pause_us[0], 5 + 1048576 / 1.4e6, 1e-9);
  // The copies are the device's work, not the driver's.
  EXPECT_DOUBLE_EQ(report.driver_us_modelled, 2 * (8 + 1 + 21));
}

TEST(PagedMigratingPolicyTest, AnEmptiedPageIsMappedElsewhereForALargeBlock) {
  PagedMigratingPolicy policy(Options(2));
  const std::vector<uint64_t> blocks = Fill(&policy, 8, kPage / 4);
  for (const size_t i : {0u, 1u, 5u, 6u})
    FIRN_ASSERT_OK(policy.Free(blocks[i], 0));
  FIRN_ASSERT_OK(policy.Allocate(kPage, 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kPage);
  const PolicyReport report = policy.Report();
  EXPECT_EQ(report.driver_calls.create, 2u);
  EXPECT_EQ(report.driver_calls.map, 3u);
  EXPECT_EQ(report.driver_calls.set_access, 3u);
  EXPECT_EQ(report.driver_calls.unmap, 1u);
  EXPECT_EQ(report.driver_calls.release, 0u);
  // Unmap 11.5 us, map 1, set access 20 and 1 a page.
  ASSERT_EQ(report.pause_us.size(), 1u);
  EXPECT_NEAR(report.pause_us[0], 11.5 + 1 + 21 + 5 + 1048576 / 1.4e6, 1e-9);
}

TEST(PagedMigratingPolicyTest, MovesNothingIfNoPageCanBeEmptied) {
  PagedMigratingPolicy policy(Options(2));
  const std::vector<uint64_t> blocks = Fill(&policy, 8, kPage / 4);
  for (const size_t i : {0u, 1u, 5u}) FIRN_ASSERT_OK(policy.Free(blocks[i], 0));
  // 5 blocks do not fit into one page of 4.
  EXPECT_THAT(policy.Allocate(kPage / 8, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(policy.Report().bytes_copied, 0u);
  EXPECT_TRUE(policy.Report().pause_us.empty());
  EXPECT_EQ(policy.usage().held_bytes, 2 * kPage);
}

TEST(PagedMigratingPolicyTest, MovesNothingIfTooFewPagesCanBeEmptied) {
  PagedMigratingPolicy policy(Options(2));
  const std::vector<uint64_t> blocks = Fill(&policy, 8, kPage / 4);
  for (const size_t i : {0u, 1u, 5u, 6u})
    FIRN_ASSERT_OK(policy.Free(blocks[i], 0));
  EXPECT_THAT(policy.Allocate(2 * kPage, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(policy.Report().granules_moved, 0u);
  FIRN_ASSERT_OK(policy.Allocate(kPage, 0));
  EXPECT_EQ(policy.Report().granules_moved, 1u);
}

TEST(PagedMigratingPolicyTest, WithoutCompactionNothingMoves) {
  PagedMigratingPolicy policy(Options(2, CompactionMode::kOff));
  const std::vector<uint64_t> blocks = Fill(&policy, 8, kPage / 4);
  for (const size_t i : {0u, 1u, 5u, 6u})
    FIRN_ASSERT_OK(policy.Free(blocks[i], 0));
  EXPECT_THAT(policy.Allocate(kPage / 8, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(PagedMigratingPolicyTest, AMovedBlockIsFreedByTheSameIdentity) {
  PagedMigratingPolicy policy(Options(2));
  const std::vector<uint64_t> blocks = Fill(&policy, 8, kPage / 4);
  for (const size_t i : {0u, 1u, 5u, 6u})
    FIRN_ASSERT_OK(policy.Free(blocks[i], 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t other,
                            policy.Allocate(kPage / 8, 0));
  EXPECT_NE(other, blocks[2]);
  for (const size_t i : {2u, 3u, 4u}) FIRN_ASSERT_OK(policy.Free(blocks[i], 0));
  EXPECT_EQ(policy.usage().held_bytes, 2 * kPage);
  FIRN_ASSERT_OK(policy.Free(blocks[7], 0));
  EXPECT_EQ(policy.usage().held_bytes, kPage);
  FIRN_ASSERT_OK(policy.Free(other, 0));
  EXPECT_EQ(policy.usage().held_bytes, 0u);
}

TEST(PagedMigratingPolicyTest, ThePageWithTheFewestLiveBytesGoesFirst) {
  PagedMigratingPolicy policy(Options(4));
  const std::vector<uint64_t> quarters = Fill(&policy, 8, kPage / 4);
  const std::vector<uint64_t> eighths = Fill(&policy, 16, kPage / 8);
  for (const size_t i : {1u, 2u, 6u, 7u})
    FIRN_ASSERT_OK(policy.Free(quarters[i], 0));
  // 3 live eighths against 2 quarters.
  for (const size_t i : {0u, 1u, 2u, 3u, 4u, 8u, 9u, 10u}) {
    FIRN_ASSERT_OK(policy.Free(eighths[i], 0));
  }
  FIRN_ASSERT_OK(policy.Allocate(kPage, 0));
  EXPECT_EQ(policy.Report().bytes_copied, 3 * kPage / 8);
}

TEST(PagedMigratingPolicyTest, InTheBackgroundPagesAreEmptiedToTheThreshold) {
  PagedMigratingPolicy policy(Options(64, CompactionMode::kBackground));
  const std::vector<uint64_t> blocks = Fill(&policy, 32, kPage / 4);
  // Leaves 1 block in each of the first 5 pages of 8: 15 free slots, 3 pages
  // that can be emptied, more than the two that are tolerated.
  for (size_t i = 0; i < 15; ++i) {
    FIRN_ASSERT_OK(policy.Free(blocks[i / 3 * 4 + i % 3], 0));
  }
  for (uint32_t i = 1; i < BackgroundTrigger::kShortestIntervalEvents; ++i) {
    FIRN_ASSERT_OK(policy.Tick(i));
  }
  EXPECT_EQ(policy.usage().used_bytes, 8 * kPage);
  FIRN_ASSERT_OK(policy.Tick(64));
  // One page is enough, and so is one block.
  EXPECT_EQ(policy.usage().used_bytes, 7 * kPage);
  EXPECT_EQ(policy.usage().held_bytes, 7 * kPage);
  EXPECT_EQ(policy.Report().bytes_copied, kPage / 4);
  EXPECT_EQ(policy.Report().driver_calls.release, 1u);
  EXPECT_EQ(policy.Report().pause_us.size(), 1u);
}

TEST(PagedMigratingPolicyTest, WhatNoMoveGivesBackSetsNothingInMotion) {
  PagedMigratingPolicy policy(Options(64, CompactionMode::kBackground));
  // A page takes 10, which leaves 128 KiB of each page; 3.1 MiB in all.
  const std::vector<uint64_t> blocks = Fill(&policy, 250, 192 * kKiB);
  EXPECT_EQ(policy.usage().used_bytes, 25 * kPage);
  // One page could be emptied.
  for (size_t i = 0; i < 10; ++i) {
    FIRN_ASSERT_OK(policy.Free(blocks[i * 11], 0));
  }
  for (int i = 0; i < 400; ++i) FIRN_ASSERT_OK(policy.Tick(i));
  EXPECT_EQ(policy.Report().bytes_copied, 0u);
}

TEST(PagedMigratingPolicyTest, OnDemandTheClockMovesNothing) {
  PagedMigratingPolicy policy(Options(64));
  const std::vector<uint64_t> blocks = Fill(&policy, 32, kPage / 4);
  for (size_t i = 0; i < 32; ++i) {
    if (i % 4 == 0) continue;
    FIRN_ASSERT_OK(policy.Free(blocks[i], 0));
  }
  FIRN_ASSERT_OK(policy.Tick(1));
  EXPECT_EQ(policy.usage().used_bytes, 8 * kPage);
}

// A request for all pages but those that a perfect packing needs.
TEST(PagedMigratingPolicyTest, AFullMigrationLeavesTheLeastPagesToEveryClass) {
  constexpr uint64_t kPages = 40;
  const std::vector<uint64_t> sizes = {16 * kKiB, 192 * kKiB, 512 * kKiB};
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    PagedMigratingPolicy policy(Options(kPages));
    std::vector<std::pair<uint64_t, uint64_t>> blocks;  // size's index
    while (true) {
      const uint64_t index = random() % sizes.size();
      absl::StatusOr<uint64_t> block = policy.Allocate(sizes[index], 0);
      if (!block.ok()) break;
      blocks.emplace_back(*block, index);
    }
    std::vector<std::pair<uint64_t, uint64_t>> live;
    std::vector<uint64_t> counts(sizes.size());
    for (const auto& [block, index] : blocks) {
      if (random() % 3 == 0) {
        live.emplace_back(block, index);
        ++counts[index];
      } else {
        FIRN_ASSERT_OK(policy.Free(block, 0));
      }
    }
    uint64_t least_pages = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const uint64_t blocks_per_page = kPage / sizes[i];
      least_pages += (counts[i] + blocks_per_page - 1) / blocks_per_page;
    }
    EXPECT_THAT(policy.Allocate((kPages - least_pages + 1) * kPage, 0),
                StatusIs(absl::StatusCode::kResourceExhausted));
    FIRN_ASSERT_OK_AND_ASSIGN(
        const uint64_t rest,
        policy.Allocate((kPages - least_pages) * kPage, 0));
    EXPECT_GT(policy.Report().granules_moved, 0u);
    FIRN_ASSERT_OK(policy.Free(rest, 0));
    EXPECT_EQ(policy.usage().held_bytes, least_pages * kPage);
    for (const auto& [block, index] : live) {
      FIRN_ASSERT_OK(policy.Free(block, 0));
    }
    EXPECT_EQ(policy.usage().held_bytes, 0u);
  }
}

TEST(PagedMigratingPolicyTest, RefusesToFreeWhatIsNoBlock) {
  PagedMigratingPolicy policy(Options(8));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t small, policy.Allocate(1024, 0));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t large, policy.Allocate(kPage, 0));
  for (const uint64_t address : {uint64_t{0}, small + 1, large + 512}) {
    EXPECT_THAT(policy.Free(address, 0),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  FIRN_ASSERT_OK(policy.Free(small, 0));
  FIRN_ASSERT_OK(policy.Free(large, 0));
  EXPECT_THAT(policy.Free(small, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace firn::bench

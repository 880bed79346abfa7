// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/firn_policy.h"

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGranule = 2048 * kKiB;

PolicyOptions Options(CompactionMode compaction, CpuStorage storage) {
  PolicyOptions options;
  options.capacity_bytes = 32 * kGranule;
  options.compaction = compaction;
  options.storage = storage;
  options.verify = storage == CpuStorage::kReal;
  return options;
}

// Fills the capacity with small blocks and frees all but every 16th.
absl::StatusOr<std::vector<uint64_t>> LeaveScattered(Policy* policy) {
  std::vector<uint64_t> survivors;
  std::vector<uint64_t> casualties;
  const uint64_t blocks = 30 * kGranule / (64 * kKiB);
  for (uint64_t i = 0; i < blocks; ++i) {
    absl::StatusOr<uint64_t> block = policy->Allocate(64 * kKiB, 0);
    if (!block.ok()) return block.status();
    (i % 16 == 7 ? survivors : casualties).push_back(*block);
  }
  for (const uint64_t block : casualties) {
    if (absl::Status freed = policy->Free(block, 0); !freed.ok()) return freed;
  }
  return survivors;
}

TEST(FirnPolicyTest, OnDemandMovesForAnAllocationThatWouldFail) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> policy,
                            FirnPolicy::Create(Options(
                                CompactionMode::kOnDemand, CpuStorage::kReal)));
  FIRN_ASSERT_OK_AND_ASSIGN(const std::vector<uint64_t> survivors,
                            LeaveScattered(policy.get()));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t large,
                            policy->Allocate(20 * kGranule, 0));
  const PolicyReport report = policy->Report();
  EXPECT_GT(report.granules_moved, 0u);
  EXPECT_GT(report.bytes_copied, 0u);
  EXPECT_GT(report.bytes_recovered, 0u);
  ASSERT_EQ(report.pause_us.size(), 1u);
  EXPECT_GT(report.pause_us[0], 0);
  for (const uint64_t block : survivors) {
    FIRN_ASSERT_OK(policy->Free(block, 0));
  }
  FIRN_ASSERT_OK(policy->Free(large, 0));
  EXPECT_EQ(policy->Report().content_errors, 0u);
}

TEST(FirnPolicyTest, OffFailsWhereOnlyMovingWouldHelp) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Policy> policy,
      FirnPolicy::Create(Options(CompactionMode::kOff, CpuStorage::kGhost)));
  FIRN_ASSERT_OK(LeaveScattered(policy.get()).status());
  EXPECT_THAT(policy->Allocate(20 * kGranule, 0),
              testing::StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(policy->Report().granules_moved, 0u);
}

TEST(FirnPolicyTest, BackgroundMovesWhileEventsPass) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Policy> policy,
      FirnPolicy::Create(
          Options(CompactionMode::kBackground, CpuStorage::kReal)));
  FIRN_ASSERT_OK(LeaveScattered(policy.get()).status());
  const uint64_t used_before = policy->usage().used_bytes;
  for (uint32_t i = 0; i < BackgroundTrigger::kShortestIntervalEvents; ++i) {
    FIRN_ASSERT_OK(policy->Tick(i));
  }
  EXPECT_LT(policy->usage().used_bytes, used_before / 2);
  EXPECT_EQ(policy->Report().pause_us.size(), 1u);
  EXPECT_EQ(policy->Report().content_errors, 0u);
}

TEST(FirnPolicyTest, ItsControllerMovesByTheClockOfTheTrace) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Policy> policy,
      FirnPolicy::Create(
          Options(CompactionMode::kController, CpuStorage::kReal)));
  FIRN_ASSERT_OK(LeaveScattered(policy.get()).status());
  const uint64_t used_before = policy->usage().used_bytes;
  // Once at the beginning, and not again within its interval.
  FIRN_ASSERT_OK(policy->Tick(0));
  const size_t passes = policy->Report().pause_us.size();
  FIRN_ASSERT_OK(policy->Tick(1));
  EXPECT_EQ(policy->Report().pause_us.size(), passes);
  // Then as long as there is something to gain, also without events.
  for (int64_t second = 1; second < 100; ++second) {
    FIRN_ASSERT_OK(policy->TickIdle(second * 1'000'000).status());
  }
  EXPECT_LT(policy->usage().used_bytes, used_before / 2);
  EXPECT_EQ(policy->Report().content_errors, 0u);
}

TEST(FirnPolicyTest, AFullPassComesCloseToTheBoundAndKeepsWhatBlocksHold) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> policy,
                            FirnPolicy::Create(Options(
                                CompactionMode::kOnDemand, CpuStorage::kReal)));
  FIRN_ASSERT_OK(LeaveScattered(policy.get()).status());
  const uint64_t used_before = policy->usage().used_bytes;
  FIRN_ASSERT_OK_AND_ASSIGN(const std::optional<FullPassOutcome> outcome,
                            policy->FullPass());
  ASSERT_TRUE(outcome.has_value());
  const uint64_t used_after = policy->usage().used_bytes;
  EXPECT_EQ(outcome->used_granules * kGranule, used_after);
  EXPECT_LT(used_after, used_before / 2);
  EXPECT_GT(outcome->lower_bound_granules, 0u);
  EXPECT_LE(outcome->lower_bound_granules, outcome->used_granules);
  EXPECT_LE(outcome->used_granules, outcome->lower_bound_granules + 1);
  const PolicyReport report = policy->Report();
  EXPECT_EQ(report.pause_us.size(), 1u);
  EXPECT_EQ(report.content_errors, 0u);
}

TEST(FirnPolicyTest, NoFullPassWhereLiveMemoryMayNotMove) {
  PolicyOptions options = Options(CompactionMode::kOff, CpuStorage::kGhost);
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> still,
                            FirnPolicy::Create(options));
  options.compaction = CompactionMode::kBackground;
  options.idle_share = 0.5;
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> half_idle,
                            FirnPolicy::Create(options));
  for (Policy* const policy : {still.get(), half_idle.get()}) {
    FIRN_ASSERT_OK(LeaveScattered(policy).status());
    FIRN_ASSERT_OK_AND_ASSIGN(const std::optional<FullPassOutcome> outcome,
                              policy->FullPass());
    EXPECT_FALSE(outcome.has_value());
    EXPECT_EQ(policy->Report().granules_moved, 0u);
  }
}

PolicyOptions IdleShareOptions(double share) {
  PolicyOptions options =
      Options(CompactionMode::kBackground, CpuStorage::kReal);
  options.idle_share = share;
  return options;
}

// As many events as lie between two passes, or a little more.
void PassEvents(Policy* policy) {
  for (uint32_t i = 0; i < BackgroundTrigger::kShortestIntervalEvents; ++i) {
    FIRN_ASSERT_OK(policy->Tick(i));
  }
}

TEST(FirnPolicyTest, WhereAllIsIdleAPassMovesIt) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> policy,
                            FirnPolicy::Create(IdleShareOptions(1)));
  FIRN_ASSERT_OK_AND_ASSIGN(const std::vector<uint64_t> survivors,
                            LeaveScattered(policy.get()));
  const uint64_t used_before = policy->usage().used_bytes;
  PassEvents(policy.get());
  EXPECT_LT(policy->usage().used_bytes, used_before / 2);
  EXPECT_EQ(policy->Report().pause_us.size(), 1u);
  for (const uint64_t block : survivors) {
    FIRN_ASSERT_OK(policy->Free(block, 0));
    FIRN_ASSERT_OK(policy->Tick(0));
  }
  EXPECT_EQ(policy->Report().content_errors, 0u);
}

TEST(FirnPolicyTest, WhereNothingIsIdleNothingMovesEvenOnFailure) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> policy,
                            FirnPolicy::Create(IdleShareOptions(0)));
  FIRN_ASSERT_OK(LeaveScattered(policy.get()).status());
  PassEvents(policy.get());
  EXPECT_THAT(policy->Allocate(20 * kGranule, 0),
              testing::StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(policy->Report().granules_moved, 0u);
}

TEST(FirnPolicyTest, TheMoreIsIdleTheLessIsUsed) {
  uint64_t last_used = ~uint64_t{0};
  for (const double share : {0.0, 0.5, 1.0}) {
    FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> policy,
                              FirnPolicy::Create(IdleShareOptions(share)));
    FIRN_ASSERT_OK(LeaveScattered(policy.get()).status());
    PassEvents(policy.get());
    EXPECT_LT(policy->usage().used_bytes, last_used) << share;
    last_used = policy->usage().used_bytes;
  }
}

TEST(FirnPolicyTest, AnIdleShareIsForTheBackgroundAlone) {
  PolicyOptions options = IdleShareOptions(0.5);
  options.compaction = CompactionMode::kOnDemand;
  EXPECT_THAT(FirnPolicy::Create(options).status(),
              testing::StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(FirnPolicyTest, OnDemandDoesNothingWhileEventsPass) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Policy> policy,
      FirnPolicy::Create(
          Options(CompactionMode::kOnDemand, CpuStorage::kGhost)));
  FIRN_ASSERT_OK(LeaveScattered(policy.get()).status());
  for (int64_t i = 0; i < 5000; ++i) FIRN_ASSERT_OK(policy->Tick(i));
  EXPECT_EQ(policy->Report().granules_moved, 0u);
}

TEST(FirnPolicyTest, ADamagedBlockIsCountedOnce) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Policy> policy,
      FirnPolicy::Create(
          Options(CompactionMode::kBackground, CpuStorage::kReal)));
  FIRN_ASSERT_OK_AND_ASSIGN(const std::vector<uint64_t> survivors,
                            LeaveScattered(policy.get()));
  std::memset(reinterpret_cast<void*>(survivors[5] + 4096), 0, 8);
  for (uint32_t i = 0; i < BackgroundTrigger::kShortestIntervalEvents; ++i) {
    FIRN_ASSERT_OK(policy->Tick(i));
  }
  for (const uint64_t block : survivors) {
    FIRN_ASSERT_OK(policy->Free(block, 0));
  }
  EXPECT_EQ(policy->Report().content_errors, 1u);
}

TEST(FirnPolicyTest, ReportsALowerBoundOfGranules) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Policy> policy,
      FirnPolicy::Create(Options(CompactionMode::kOff, CpuStorage::kGhost)));
  FIRN_ASSERT_OK(policy->Allocate(3 * kGranule + 512, 0));
  EXPECT_EQ(policy->Report().lower_bound_bytes, 4 * kGranule);
}

}  // namespace
}  // namespace firn::bench

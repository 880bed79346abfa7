// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// FIRN_MOVING, on pools of devices that can move memory.

#include "firn/core/moving_choice.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kCapacityBytes = 16 * kMiB;
constexpr uint64_t kBlockBytes = 300 * kKiB;

// Leaves the environment as it was.
class MovingChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("FIRN_MOVING"); }
  void TearDown() override { ::unsetenv("FIRN_MOVING"); }

  // A full pool of which most blocks went again: fragmented.
  void MakeFragmentedPool() {
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_, PoolOnCpu::Real(kCapacityBytes, /*move_on_failure=*/true));
    std::vector<FilledBlock> all;
    while (true) {
      const absl::StatusOr<void*> ptr = pool().Allocate(kBlockBytes);
      if (!ptr.ok()) break;
      all.push_back({*ptr, kBlockBytes, all.size()});
      Fill(all.back());
    }
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % 6 == 0) {
        blocks_.push_back(all[i]);
      } else {
        FIRN_ASSERT_OK(pool().Free(all[i].ptr));
      }
    }
  }
  Pool& pool() { return on_cpu_->pool(); }

  std::unique_ptr<PoolOnCpu> on_cpu_;
  std::vector<FilledBlock> blocks_;
};

TEST_F(MovingChoiceTest, MemoryMovesUnlessTurnedOff) {
  for (const char* value : {"", "on"}) {
    ::setenv("FIRN_MOVING", value, 1);
    blocks_.clear();
    ASSERT_NO_FATAL_FAILURE(MakeFragmentedPool());
    const PoolStats stats = pool().GetStats();
    EXPECT_TRUE(stats.moving);
    EXPECT_THAT(stats.moving_reason, HasSubstr("a trial succeeded"));
    EXPECT_THAT(stats.ToString(), HasSubstr(stats.moving_reason));
    FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
    EXPECT_GT(report.moves, 0u);
    EXPECT_EQ(CountDamaged(blocks_), 0u);
  }
}

TEST_F(MovingChoiceTest, TurnedOffNothingLiveMoves) {
  ::setenv("FIRN_MOVING", "off", 1);
  ASSERT_NO_FATAL_FAILURE(MakeFragmentedPool());
  EXPECT_FALSE(pool().GetStats().moving);
  EXPECT_THAT(pool().GetStats().moving_reason, HasSubstr("FIRN_MOVING=off"));
  EXPECT_THAT(pool().Compact(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("FIRN_MOVING=off")));
  // More than the whole granules that are free, and less than what moving
  // would free.
  CompactOptions dry_run;
  dry_run.dry_run = true;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport plan,
                            pool().Compact(dry_run));
  EXPECT_GT(plan.granules_recovered, 1u);
  const PoolStats before = pool().GetStats();
  const uint64_t bytes =
      before.capacity_bytes - before.used_bytes + before.granule_bytes;
  EXPECT_THAT(pool().Allocate(bytes),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("not allowed to move"),
                             HasSubstr("FIRN_MOVING=off"))));
  const PoolStats after = pool().GetStats();
  EXPECT_EQ(after.compaction_passes, 0u);
  EXPECT_EQ(after.granules_moved, 0u);
  EXPECT_EQ(after.bytes_copied, 0u);
  EXPECT_EQ(CountDamaged(blocks_), 0u);
  // Free memory serves as ever.
  FIRN_EXPECT_OK(pool().Allocate(kBlockBytes).status());
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_F(MovingChoiceTest, TheSameRequestSucceedsWhereMovingIsOn) {
  ASSERT_NO_FATAL_FAILURE(MakeFragmentedPool());
  const PoolStats before = pool().GetStats();
  FIRN_EXPECT_OK(pool()
                     .Allocate(before.capacity_bytes - before.used_bytes +
                               before.granule_bytes)
                     .status());
  EXPECT_GT(pool().GetStats().granules_moved, 0u);
  EXPECT_EQ(CountDamaged(blocks_), 0u);
}

TEST_F(MovingChoiceTest, AnotherValueIsRefused) {
  ::setenv("FIRN_MOVING", "maybe", 1);
  EXPECT_THAT(
      PoolOnCpu::Real(kCapacityBytes).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("FIRN_MOVING=maybe"), HasSubstr("off or on"))));
}

TEST_F(MovingChoiceTest, AFullDeviceIsNotTakenForOneThatCannot) {
  CpuDriverOptions options;
  options.storage = CpuStorage::kGhost;
  FIRN_ASSERT_OK_AND_ASSIGN(auto cpu, CpuDriver::Create(options));
  FaultingDriver faults(cpu.get());
  faults.FailNthOf(DriverCall::kMemCreate, 0, DriverResult::kOutOfMemory);
  FIRN_ASSERT_OK_AND_ASSIGN(const MovingChoice choice,
                            ChooseMoving(&faults, /*is_turned_off=*/false));
  EXPECT_TRUE(choice.has_virtual_memory);
  EXPECT_TRUE(choice.is_on);
  EXPECT_THAT(choice.reason, AllOf(HasSubstr("could not be tried"),
                                   HasSubstr("OUT_OF_MEMORY")));
}

TEST_F(MovingChoiceTest, WhatTheTrialIsRefusedForIsTheReason) {
  CpuDriverOptions options;
  options.storage = CpuStorage::kGhost;
  FIRN_ASSERT_OK_AND_ASSIGN(auto cpu, CpuDriver::Create(options));
  FaultingDriver faults(cpu.get());
  faults.FailNthOf(DriverCall::kMemMap, 0, DriverResult::kNotPermitted);
  FIRN_ASSERT_OK_AND_ASSIGN(const MovingChoice choice,
                            ChooseMoving(&faults, /*is_turned_off=*/true));
  EXPECT_FALSE(choice.has_virtual_memory);
  EXPECT_FALSE(choice.is_on);
  // Not the variable: it would change nothing.
  EXPECT_THAT(choice.reason,
              AllOf(HasSubstr("cuMemMap"), HasSubstr("NOT_PERMITTED")));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_EQ(cpu->MemGetInfo(&free_bytes, &total_bytes), DriverResult::kSuccess);
  EXPECT_EQ(free_bytes, total_bytes);
}

TEST_F(MovingChoiceTest, ALostDeviceMakesNoPoolOfEitherKind) {
  CpuDriverOptions options;
  options.storage = CpuStorage::kGhost;
  FIRN_ASSERT_OK_AND_ASSIGN(auto cpu, CpuDriver::Create(options));
  FaultingDriver faults(cpu.get());
  faults.FailFrom(0, DriverResult::kIllegalAddress);
  EXPECT_THAT(ChooseMoving(&faults, /*is_turned_off=*/false).status(),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace firn

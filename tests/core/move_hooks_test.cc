// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Hooks are told of every move, before and after.

#include "firn/core/move_hooks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/move_hooks_scene.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

class MoveHooksTest : public MoveHooksScene {};

TEST_P(MoveHooksTest, EveryBlockThatMovesIsToldBeforeAndAfter) {
  Fragment();
  const std::map<void*, uint64_t> before = Generations();
  Told told;
  const MoveHookRegistration registration = Note(&told);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GT(report.moves, 0u);
  EXPECT_EQ(report.vetoed_sources, 0u);
  EXPECT_EQ(told.before_calls, static_cast<int>(report.granules_recovered));
  EXPECT_EQ(told.after_calls, told.before_calls);

  const std::map<void*, uint64_t> after = Generations();
  std::map<void*, MovingBlock> moved;
  for (const MovingBlock& block : told.after) {
    EXPECT_TRUE(moved.emplace(block.ptr, block).second) << "told twice";
  }
  ASSERT_EQ(told.before.size(), told.after.size());
  for (const MovingBlock& block : told.before) {
    EXPECT_EQ(block.old_generation, before.at(block.ptr));
    EXPECT_EQ(block.new_generation, block.old_generation);
  }
  for (const FilledBlock& block : blocks_) {
    const uint64_t old_generation = before.at(block.ptr);
    const uint64_t new_generation = after.at(block.ptr);
    ASSERT_EQ(moved.count(block.ptr), new_generation == old_generation ? 0 : 1);
    if (new_generation == old_generation) continue;
    EXPECT_EQ(moved[block.ptr].bytes, kBlockBytes);
    EXPECT_EQ(moved[block.ptr].old_generation, old_generation);
    EXPECT_EQ(moved[block.ptr].new_generation, new_generation);
  }
  ExpectSound();
}

TEST_P(MoveHooksTest, APassWithHooksDoesWhatOneWithoutDoes) {
  Fragment(96 * kKiB, 7);
  CompactOptions dry;
  dry.dry_run = true;
  Told told;
  const MoveHookRegistration registration = Note(&told);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport planned,
                            pool().Compact(dry));
  EXPECT_EQ(told.before_calls, 0);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GT(told.before_calls, 0);
  EXPECT_EQ(report.moves, planned.moves);
  EXPECT_EQ(report.bytes_copied, planned.bytes_copied);
  EXPECT_EQ(report.granules_recovered, planned.granules_recovered);
  EXPECT_EQ(report.rejected_sources, planned.rejected_sources);
  EXPECT_EQ(pool().GetStats().used_bytes, report.granules_after * kGranule);
  ExpectSound();
}

TEST_P(MoveHooksTest, AVetoKeepsTheWholeGranuleAndNothingElse) {
  Fragment(64 * kKiB, 6);
  const std::map<void*, uint64_t> before = Generations();
  Told first;
  const MoveHookRegistration noting = Note(&first);
  std::set<void*> vetoed;
  MoveHook hook;
  hook.before_move = [&vetoed](Blocks blocks) {
    if (!vetoed.empty()) return absl::OkStatus();
    for (const MovingBlock& block : blocks) vetoed.insert(block.ptr);
    return absl::UnavailableError("a veto");
  };
  int after_calls = 0;
  hook.after_move = [&after_calls](Blocks) { ++after_calls; };
  const MoveHookRegistration vetoing = Add(std::move(hook));
  Told last;
  const MoveHookRegistration behind = Note(&last);

  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_EQ(report.vetoed_sources, 1u);
  EXPECT_EQ(pool().GetStats().vetoed_sources, 1u);
  EXPECT_GT(report.granules_recovered, 0u);
  EXPECT_EQ(pool().GetStats().used_bytes, report.granules_after * kGranule);
  ASSERT_GT(vetoed.size(), 1u);
  const std::map<void*, uint64_t> after = Generations();
  for (void* const ptr : vetoed) EXPECT_EQ(after.at(ptr), before.at(ptr));
  // The one before it is told that nothing has happened, the one behind it
  // nothing at all.
  EXPECT_EQ(first.before_calls, first.after_calls);
  EXPECT_EQ(after_calls, first.after_calls - 1);
  EXPECT_EQ(last.before_calls, first.before_calls - 1);
  EXPECT_EQ(last.after_calls, last.before_calls);
  for (const MovingBlock& block : first.after) {
    EXPECT_EQ(block.new_generation == block.old_generation,
              vetoed.count(block.ptr) == 1);
  }
  ExpectSound();
}

TEST_P(MoveHooksTest, AfterAVetoThePassIsMadeAgainThoughNothingWasFreed) {
  MakePool(16 * kMiB, /*move_on_failure=*/true);
  Fragment(kBlockBytes, 4);
  const PoolStats stats = pool().GetStats();
  const uint64_t bytes = stats.capacity_bytes - stats.used_bytes + 2 * kMiB;
  bool vetoes = true;
  MoveHook hook;
  hook.before_move = [&vetoes](Blocks) {
    return vetoes ? absl::UnavailableError("a veto") : absl::OkStatus();
  };
  const MoveHookRegistration registration = Add(std::move(hook));
  EXPECT_THAT(pool().Allocate(bytes).status(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  vetoes = false;
  FIRN_EXPECT_OK(pool().Allocate(bytes).status());
  ExpectSound();
}

TEST_P(MoveHooksTest, RoomWithinAGranuleIsMadeWithHooksToo) {
  MakePool(2 * kGranule, /*move_on_failure=*/true);
  // Two granules of four blocks; one lacks its first, the other its second.
  std::vector<void*> casualties;
  for (uint64_t i = 0; i < 8; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(kGranule / 4));
    const uint64_t offset = reinterpret_cast<uintptr_t>(ptr) % kGranule;
    if (offset == (i < 4 ? 0 : kGranule / 4)) {
      casualties.push_back(ptr);
      continue;
    }
    blocks_.push_back({ptr, kGranule / 4, i});
    Fill(blocks_.back());
  }
  for (void* const ptr : casualties) FIRN_ASSERT_OK(pool().Free(ptr));
  bool vetoes = true;
  Told told;
  MoveHook hook;
  hook.before_move = [&vetoes](Blocks) {
    return vetoes ? absl::UnavailableError("a veto") : absl::OkStatus();
  };
  const MoveHookRegistration vetoing = Add(std::move(hook));
  const MoveHookRegistration noting = Note(&told);
  EXPECT_THAT(pool().Allocate(kGranule / 2).status(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(pool().GetStats().granules_moved, 0u);
  EXPECT_EQ(pool().GetStats().vetoed_sources, 1u);
  EXPECT_EQ(told.before_calls, 0);
  // It is asked again, though nothing was freed.
  vetoes = false;
  FIRN_ASSERT_OK(pool().Allocate(kGranule / 2).status());
  EXPECT_EQ(pool().GetStats().granules_moved, 1u);
  ASSERT_EQ(told.after.size(), 1u);
  EXPECT_EQ(told.after[0].bytes, kGranule / 4);
  EXPECT_GT(told.after[0].new_generation, told.after[0].old_generation);
  ExpectSound();
}

TEST_P(MoveHooksTest, ALargeBlockWhoseRemainderMovesIsToldAsAWhole) {
  std::vector<void*> fillers;
  for (uint64_t i = 0; i < 6; ++i) {
    const uint64_t bytes = 2 * kGranule + kGranule / 8;
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(bytes));
    blocks_.push_back({ptr, bytes, i});
    Fill(blocks_.back());
    // So that the next remainder does not lie beside this one.
    FIRN_ASSERT_OK_AND_ASSIGN(void* filler,
                              pool().Allocate(kGranule - kGranule / 8));
    fillers.push_back(filler);
  }
  for (void* const filler : fillers) FIRN_ASSERT_OK(pool().Free(filler));
  Told told;
  const MoveHookRegistration registration = Note(&told);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  uint64_t large = 0;
  for (const MovingBlock& block : told.after) {
    EXPECT_GT(block.new_generation, block.old_generation);
    if (block.bytes == 2 * kGranule + kGranule / 8) {
      ++large;
      EXPECT_TRUE(std::any_of(
          blocks_.begin(), blocks_.end(),
          [&block](const FilledBlock& b) { return b.ptr == block.ptr; }));
    }
  }
  EXPECT_EQ(told.after.size(), report.moves);
  EXPECT_GT(large, 0u);
  ExpectSound();
}

TEST_P(MoveHooksTest, APassThatFailsAtAnyCallTellsTheHooksOfTheEnd) {
  uint64_t reported = 0;
  uint64_t stayed = 0;
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    MakePool(8 * kGranule, /*move_on_failure=*/false);
    Fragment(kGranule / 8, 6);
    Told told;
    const MoveHookRegistration registration = Note(&told);
    on_cpu_->faults().Reset();
    on_cpu_->faults().FailNth(n, DriverResult::kUnknown);
    const absl::Status status = pool().Compact().status();
    const bool reached = on_cpu_->faults().failures() > 0;
    on_cpu_->faults().Reset();
    if (!status.ok()) ++reported;
    ASSERT_EQ(told.before_calls, told.after_calls);
    ASSERT_EQ(told.before.size(), told.after.size());
    const std::map<void*, uint64_t> now = Generations();
    for (const MovingBlock& block : told.after) {
      EXPECT_EQ(block.new_generation, now.at(block.ptr));
      if (!status.ok() && block.new_generation == block.old_generation) {
        ++stayed;
      }
    }
    ExpectSound();
    FIRN_ASSERT_OK(pool().Compact().status());
    EXPECT_GT(pool().GetStats().granules_moved, 0u);
    ExpectSound();
    if (!reached) break;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GE(reported, 8u);  // the second wait for the device among them
  EXPECT_GT(stayed, 0u);
}

TEST_P(MoveHooksTest, AGatedPassCallsThem) {
  Fragment();
  Told told;
  const MoveHookRegistration registration = Note(&told);
  CompactOptions options;
  options.level = CompactionLevel::kLaunchScopes;
  options.max_wait = absl::Seconds(30);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(options));
  EXPECT_GT(report.moves, 0u);
  EXPECT_EQ(told.after.size(), told.before.size());
  EXPECT_GT(told.after_calls, 0);
  ExpectSound();
}

TEST_P(MoveHooksTest, AHookThatCallsNothingIsRefused) {
  EXPECT_THAT(pool().AddMoveHook(MoveHook()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("before_move and after_move")));
}

INSTANTIATE_TEST_SUITE_P(Extremes, MoveHooksTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn::testing

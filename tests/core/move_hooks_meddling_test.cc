// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Hooks may do anything but move: what they change of the pool leaves the pass
// right.

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "firn/core/move_hooks.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/move_hooks_scene.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/held_stream.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

class MoveHooksMeddlingTest : public MoveHooksScene {};

TEST_P(MoveHooksMeddlingTest, BlocksFreedByAHookAreNotMovedAndNotTold) {
  Fragment(64 * kKiB, 6);
  std::set<void*> freed;
  MoveHook hook;
  hook.before_move = [this, &freed](Blocks blocks) {
    // Every other one; of small sources all.
    for (size_t i = 0; i < blocks.size(); i += blocks.size() < 4 ? 1u : 2u) {
      FIRN_EXPECT_OK(pool().Free(blocks[i].ptr));
      freed.insert(blocks[i].ptr);
    }
    return absl::OkStatus();
  };
  uint64_t told = 0;
  hook.after_move = [&](Blocks blocks) {
    for (const MovingBlock& block : blocks) {
      EXPECT_EQ(freed.count(block.ptr), 0u);
      EXPECT_NE(block.new_generation, block.old_generation);
      ++told;
    }
  };
  const MoveHookRegistration registration = Add(std::move(hook));
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GT(report.granules_recovered, 0u);
  EXPECT_GT(freed.size(), 0u);
  EXPECT_GT(told, 0u);
  Forget(freed);
  EXPECT_EQ(pool().GetStats().live_allocations, blocks_.size());
  ExpectSound();
}

TEST_P(MoveHooksMeddlingTest, WhatAHookAllocatesIsNotMovedUntold) {
  Fragment(64 * kKiB, 6);
  std::map<void*, uint64_t> allocated;
  MoveHook hook;
  hook.before_move = [this, &allocated](Blocks blocks) {
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<void*> ptr = pool().Allocate(64 * kKiB);
      FIRN_EXPECT_OK(ptr.status());
      allocated[*ptr] = pool().Generation(*ptr).value();
      // In the place of one that is about to move, as it may be.
      if (i == 0) {
        FIRN_EXPECT_OK(pool().Free(*ptr));
        allocated.erase(*ptr);
      }
    }
    for (const MovingBlock& block : blocks) {
      EXPECT_EQ(allocated.count(block.ptr), 0u);
    }
    EXPECT_GT(pool().GetStats().live_bytes, 0u);
    FIRN_EXPECT_OK(pool().CheckInvariants());
    return absl::OkStatus();
  };
  {
    const MoveHookRegistration registration = Add(std::move(hook));
    FIRN_ASSERT_OK(pool().Compact().status());
  }
  EXPECT_GT(allocated.size(), 0u);
  for (const auto& [ptr, generation] : allocated) {
    EXPECT_EQ(pool().Generation(ptr).value(), generation);
  }
  ExpectSound();
}

TEST_P(MoveHooksMeddlingTest,
       ABlockInThePlaceOfOneThatWasToldIsNotMovedUntold) {
  Fragment();
  HeldStream work(&on_cpu_->cpu());
  AllocateOptions on_stream;
  on_stream.stream = work.stream();
  // From now on the pool knows two streams.
  FIRN_ASSERT_OK_AND_ASSIGN(void* other, pool().Allocate(kKiB, on_stream));
  FIRN_ASSERT_OK(pool().Free(other, work.stream()));
  FIRN_ASSERT_OK_AND_ASSIGN(const Tag tag, pool().RegisterTag("again"));
  std::map<void*, uint64_t> again;
  MoveHook hook;
  hook.before_move = [&](Blocks blocks) {
    if (again.size() == 2) return absl::OkStatus();
    // What was freed on a stream is had again there at once. A block with a
    // tag is freed behind the lock, as those are that hooks are told of.
    on_stream.tag = again.empty() ? Tag::kUntagged : tag;
    EXPECT_EQ(work.Hold(), DriverResult::kSuccess);
    FIRN_EXPECT_OK(pool().Free(blocks[0].ptr, work.stream()));
    void* const ptr = pool().Allocate(blocks[0].bytes, on_stream).value();
    EXPECT_EQ(ptr, blocks[0].ptr);
    again[ptr] = pool().Generation(ptr).value();
    work.Release();
    EXPECT_EQ(work.Wait(), DriverResult::kSuccess);
    return absl::OkStatus();
  };
  hook.after_move = [&](Blocks blocks) {
    for (const MovingBlock& block : blocks) {
      EXPECT_EQ(again.count(block.ptr), 0u);
    }
  };
  const MoveHookRegistration registration = Add(std::move(hook));
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GT(report.granules_recovered, 0u);
  EXPECT_GE(report.rejected_sources, 2u);
  ASSERT_EQ(again.size(), 2u);
  for (const auto& [ptr, generation] : again) {
    EXPECT_EQ(pool().Generation(ptr).value(), generation);
  }
  ExpectSound();
}

TEST_P(MoveHooksMeddlingTest,
       AllocationsThatFailInAHookChangeNothingOfThePass) {
  Fragment(64 * kKiB, 6);
  CompactOptions dry;
  dry.dry_run = true;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport planned,
                            pool().Compact(dry));
  std::set<void*> freed;
  MoveHook hook;
  hook.before_move = [&](Blocks blocks) {
    freed.insert(blocks[0].ptr);
    FIRN_EXPECT_OK(pool().Free(blocks[0].ptr));
    // Its message has the bounds of what is live by now.
    EXPECT_FALSE(pool().Allocate(63 * kMiB).ok());
    return absl::OkStatus();
  };
  const MoveHookRegistration registration = Add(std::move(hook));
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  Forget(freed);
  EXPECT_GT(report.moves, 0u);
  EXPECT_EQ(report.rejected_sources, planned.rejected_sources);
  EXPECT_EQ(pool().GetStats().used_bytes, planned.granules_after * kGranule);
  ExpectSound();
}

TEST_P(MoveHooksMeddlingTest, WhatHooksLaunchedIsWaitedForBeforeAnythingMoves) {
  Fragment();
  Told told;
  const MoveHookRegistration registration = Note(&told);
  on_cpu_->faults().Reset();
  on_cpu_->faults().FailNthOf(DriverCall::kCtxSynchronize, 1,
                              DriverResult::kUnknown);
  EXPECT_FALSE(pool().Compact().ok());
  on_cpu_->faults().Reset();
  EXPECT_GT(told.before_calls, 0);
  EXPECT_EQ(told.after_calls, told.before_calls);
  EXPECT_EQ(pool().GetStats().granules_moved, 0u);
  for (const MovingBlock& block : told.after) {
    EXPECT_EQ(block.new_generation, block.old_generation);
  }
  ExpectSound();
}

TEST_P(MoveHooksMeddlingTest, WhereAHostIsFilledMeanwhileNothingGoesThere) {
  Fragment();
  MoveHook hook;
  hook.before_move = [this](Blocks) {
    // All there is.
    uint64_t seed = 1000;
    while (true) {
      const absl::StatusOr<void*> ptr = pool().Allocate(kBlockBytes);
      if (!ptr.ok()) break;
      blocks_.push_back({*ptr, kBlockBytes, ++seed});
      Fill(blocks_.back());
    }
    return absl::OkStatus();
  };
  const MoveHookRegistration registration = Add(std::move(hook));
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_EQ(report.moves, 0u);
  EXPECT_GT(report.rejected_sources, 0u);
  ExpectSound();
}

TEST_P(MoveHooksMeddlingTest, WhatAHookPinsStays) {
  Fragment();
  std::vector<Pin> pins;
  std::map<void*, uint64_t> pinned;
  MoveHook hook;
  hook.before_move = [&](Blocks blocks) {
    if (pins.size() < 3) {
      pins.push_back(*pool().PinBlock(blocks.back().ptr, "a hook"));
      pinned[blocks.back().ptr] = blocks.back().old_generation;
    }
    return absl::OkStatus();
  };
  const MoveHookRegistration registration = Add(std::move(hook));
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GE(report.rejected_sources, 3u);
  EXPECT_GT(report.granules_recovered, 0u);
  ASSERT_EQ(pinned.size(), 3u);
  for (const auto& [ptr, generation] : pinned) {
    EXPECT_EQ(pool().Generation(ptr).value(), generation);
  }
  ExpectSound();
}

TEST_P(MoveHooksMeddlingTest, NoPassIsMadeInsideAHook) {
  MakePool(16 * kMiB, /*move_on_failure=*/true);
  Fragment(kBlockBytes, 4);
  const uint64_t moved = pool().GetStats().granules_moved;
  int calls = 0;
  MoveHook hook;
  const auto check = [&] {
    ++calls;
    EXPECT_THAT(pool().Compact().status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("inside a move hook")));
    // Would have to move something, and may not.
    EXPECT_THAT(pool().Allocate(14 * kMiB).status(),
                StatusIs(absl::StatusCode::kResourceExhausted));
  };
  hook.before_move = [&check](Blocks) {
    check();
    return absl::OkStatus();
  };
  hook.after_move = [&check](Blocks) { check(); };
  const MoveHookRegistration registration = Add(std::move(hook));
  // The pass of a failing allocation calls them as well.
  const PoolStats stats = pool().GetStats();
  const absl::StatusOr<void*> ptr =
      pool().Allocate(stats.capacity_bytes - stats.used_bytes + 2 * kMiB);
  FIRN_EXPECT_OK(ptr.status());
  EXPECT_GT(calls, 1);
  EXPECT_GT(pool().GetStats().granules_moved, moved);
  ExpectSound();
}

INSTANTIATE_TEST_SUITE_P(Extremes, MoveHooksMeddlingTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn::testing

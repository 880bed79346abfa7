// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Graphs that are captured on a pool's memory, launched again and again while
// the pool is used for other things, and given up.

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/pool_graphs_scene.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/held_stream.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stream_capture.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::FilledBlock;
using ::firn::testing::FillOnStream;
using ::firn::testing::GraphSettingName;
using ::firn::testing::GraphSettings;
using ::firn::testing::HeldStream;
using ::firn::testing::kCapacityBytes;
using ::firn::testing::kId;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolGraphsScene;
using ::firn::testing::StatusIs;
using ::firn::testing::StreamCapture;
using ::testing::HasSubstr;

constexpr DriverResult kOk = DriverResult::kSuccess;

class PoolGraphsTest : public PoolGraphsScene {};

TEST_P(PoolGraphsTest, AGraphMayBeLaunchedWhateverBecomesOfOtherMemory) {
  // Known before, as streams of a program in use are.
  FIRN_ASSERT_OK_AND_ASSIGN(void* const early, AllocateOn(nullptr, kMiB));
  FIRN_ASSERT_OK(pool().Free(early));
  ASSERT_NO_FATAL_FAILURE(CaptureGraph());
  uint64_t live_bytes = 0;
  for (const FilledBlock& result : results_) live_bytes += result.bytes;
  uint64_t kept_bytes = 0;
  for (const FilledBlock& block : temporaries_) kept_bytes += block.bytes;
  PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.graph_pools, 1u);
  EXPECT_EQ(stats.graph_pool_bytes, live_bytes + kept_bytes);
  EXPECT_EQ(stats.live_bytes, live_bytes);
  EXPECT_EQ(stats.live_allocations, results_.size());
  EXPECT_THAT(stats.ToString(), HasSubstr("graph_pools: 1\n"));
  for (int round = 0; round < 2; ++round) {
    ASSERT_NO_FATAL_FAILURE(RunGraph());
    // Everything that can be had, by small blocks and by large ones.
    std::vector<FilledBlock> others = FillUp(round == 1 ? 2 * kMiB : 64 * kKiB);
    EXPECT_GE(others.size(), 5u);
    for (const FilledBlock& other : others) {
      for (const FilledBlock& temporary : temporaries_) {
        EXPECT_FALSE(Overlap(other, temporary));
      }
    }
    ASSERT_NO_FATAL_FAILURE(RunGraph());
    EXPECT_EQ(CountDamaged(others), 0u);
    if (GetParam().moves) {
      FIRN_EXPECT_OK(pool().Compact().status());
      ASSERT_NO_FATAL_FAILURE(RunGraph());
      EXPECT_EQ(CountDamaged(others), 0u);
    }
    FIRN_EXPECT_OK(pool().CheckInvariants());
    FreeAll(&others);
    FIRN_EXPECT_OK(pool().Trim().status());
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }
  stats = pool().GetStats();
  EXPECT_EQ(stats.graph_pool_bytes, live_bytes + kept_bytes);
  EXPECT_GE(stats.used_bytes, live_bytes + kept_bytes);
}

TEST_P(PoolGraphsTest, PassesMoveAGraphsMemoryBeneathIt) {
  if (!GetParam().moves) GTEST_SKIP() << "nothing moves";
  // A graph's blocks, large and small, freed and live, between many others.
  std::vector<FilledBlock> others;
  FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
  ASSERT_EQ(capture().Begin(), kOk);
  for (uint64_t i = 0; i < 12; ++i) {
    ASSERT_NO_FATAL_FAILURE(CaptureTemporaries(200 * kKiB + i * kKiB));
    for (int j = 0; j < 6; ++j) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* const other, AllocateOn(nullptr, 220000));
      others.push_back({other, 220000, 0});
    }
  }
  ASSERT_EQ(capture().End(), kOk);
  FIRN_ASSERT_OK(pool().EndPool(kId));
  FreeAll(&others);
  std::vector<uint64_t> generations;
  for (const FilledBlock& result : results_) {
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t generation,
                              pool().Generation(result.ptr));
    generations.push_back(generation);
  }
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GT(report.moves, 0u);
  EXPECT_GT(report.granules_recovered, 0u);
  bool has_moved = false;
  for (size_t i = 0; i < results_.size(); ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t generation,
                              pool().Generation(results_[i].ptr));
    has_moved = has_moved || generation != generations[i];
  }
  EXPECT_TRUE(has_moved);
  FIRN_EXPECT_OK(pool().CheckInvariants());
  ASSERT_NO_FATAL_FAILURE(RunGraph());
  others = FillUp();
  ASSERT_NO_FATAL_FAILURE(RunGraph());
  EXPECT_EQ(CountDamaged(others), 0u);
}

TEST_P(PoolGraphsTest, WhatAReleasedPoolHasLeftIsUsedAgain) {
  ASSERT_NO_FATAL_FAILURE(CaptureGraph());
  ASSERT_NO_FATAL_FAILURE(RunGraph());
  // Two uses: the second graph shares the pool.
  FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
  FIRN_ASSERT_OK(pool().EndPool(kId));
  FIRN_ASSERT_OK(pool().ReleasePool(kId));
  EXPECT_EQ(pool().GetStats().graph_pools, 1u);
  FIRN_ASSERT_OK(pool().ReleasePool(kId));
  PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.graph_pools, 0u);
  EXPECT_EQ(stats.graph_pool_bytes, 0u);
  EXPECT_GT(stats.pending_free_bytes, 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
  // What is live is so still, and is freed as any block is.
  EXPECT_EQ(CountDamaged(results_), 0u);
  FreeAll(&results_);
  // No room for this but in all of the capacity.
  FIRN_ASSERT_OK_AND_ASSIGN(void* const all, pool().Allocate(kCapacityBytes));
  stats = pool().GetStats();
  EXPECT_EQ(stats.pending_free_bytes, 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
  FIRN_EXPECT_OK(pool().Free(all));
  EXPECT_THAT(pool().ReleasePool(kId),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(PoolGraphsTest, TrimGivesBackWhatAReleasedPoolHasLeft) {
  ASSERT_NO_FATAL_FAILURE(CaptureGraph());
  FreeAll(&results_);
  FIRN_ASSERT_OK(pool().Trim().status());
  EXPECT_GT(pool().GetStats().held_bytes, 0u);
  FIRN_ASSERT_OK(pool().ReleasePool(kId));
  FIRN_ASSERT_OK(pool().Trim().status());
  EXPECT_EQ(pool().GetStats().held_bytes, 0u);
}

TEST_P(PoolGraphsTest, ARequestThatFailedIsTriedAgainAfterTheRelease) {
  for (const bool trims : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(CaptureGraph());
    FreeAll(&results_);
    std::vector<FilledBlock> others = FillUp();
    FreeAll(&others);
    // The first times it has memory moved.
    for (int i = 0; i < 5; ++i) {
      EXPECT_THAT(pool().Allocate(kCapacityBytes),
                  StatusIs(absl::StatusCode::kResourceExhausted));
    }
    FIRN_ASSERT_OK(pool().ReleasePool(kId));
    if (trims) {
      FIRN_EXPECT_OK(pool().Trim(kCapacityBytes).status());
    }
    FIRN_ASSERT_OK_AND_ASSIGN(void* const all, pool().Allocate(kCapacityBytes));
    FIRN_EXPECT_OK(pool().Free(all));
    // The next pool waits for nothing.
    ASSERT_EQ(cpu().CtxSynchronize(), kOk);
  }
}

TEST_P(PoolGraphsTest, ALaunchInFlightIsWaitedForAfterTheRelease) {
  ASSERT_NO_FATAL_FAILURE(CaptureGraph());
  HeldStream launcher(&cpu());
  ASSERT_EQ(launcher.Hold(), kOk);
  ASSERT_EQ(capture().LaunchOn(launcher.stream()), kOk);
  FIRN_ASSERT_OK(pool().ReleasePool(kId));
  std::thread releaser([&launcher] {
    absl::SleepFor(absl::Milliseconds(20));
    launcher.Release();
  });
  std::vector<FilledBlock> others = FillUp();
  releaser.join();
  ASSERT_EQ(launcher.Wait(), kOk);
  EXPECT_EQ(CountDamaged(others), 0u);
  EXPECT_EQ(CountDamaged(results_), 0u);
  EXPECT_EQ(pool().GetStats().pending_free_bytes, 0u);
}

TEST_P(PoolGraphsTest, MemoryWhoseStreamIsNotDoneReachesNoGraph) {
  HeldStream busy(&cpu());
  FIRN_ASSERT_OK_AND_ASSIGN(void* const spare, AllocateOn(nullptr, 4 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block,
                            AllocateOn(busy.stream(), 4 * kMiB));
  FIRN_ASSERT_OK(pool().BeginPool(kId, {busy.stream()}));
  FIRN_ASSERT_OK(pool().Free(spare));
  ASSERT_EQ(cpu().CtxSynchronize(), kOk);
  ASSERT_EQ(busy.Hold(), kOk);
  const FilledBlock written = {block, 4 * kMiB, 1};
  ASSERT_EQ(FillOnStream(&cpu(), written, busy.stream()), kOk);
  FIRN_ASSERT_OK(pool().Free(block, busy.stream()));
  // Its graph may be launched on another stream.
  FIRN_ASSERT_OK_AND_ASSIGN(void* const captured,
                            AllocateOn(busy.stream(), 4 * kMiB));
  EXPECT_NE(captured, block);
  busy.Release();
}

// As long as there is one stream, what is freed gets no token.
TEST_P(PoolGraphsTest, TheFirstPoolWaitsForWhatWasFreedOnTheOnlyStream) {
  HeldStream busy(&cpu());
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block,
                            AllocateOn(busy.stream(), 4 * kMiB));
  ASSERT_EQ(busy.Hold(), kOk);
  const FilledBlock written = {block, 4 * kMiB, 1};
  ASSERT_EQ(FillOnStream(&cpu(), written, busy.stream()), kOk);
  FIRN_ASSERT_OK(pool().Free(block, busy.stream()));
  std::thread releaser([&busy] {
    absl::SleepFor(absl::Milliseconds(20));
    busy.Release();
  });
  const absl::Status begun = pool().BeginPool(kId, {busy.stream()});
  EXPECT_EQ(cpu().StreamQuery(busy.stream()), kOk);
  releaser.join();
  FIRN_ASSERT_OK(begun);
  FIRN_EXPECT_OK(pool().EndPool(kId));
}

TEST_P(PoolGraphsTest, FreedMemoryIsHandedOutByTheSamePoolAndStreamAlone) {
  StreamCapture other(&cpu());
  for (const uint64_t bytes : {uint64_t{5000}, 5 * kMiB}) {
    FIRN_ASSERT_OK(pool().BeginPool(kId, {stream(), other.stream()}));
    FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(stream(), bytes));
    FIRN_ASSERT_OK(pool().Free(block, stream()));
    EXPECT_THAT(pool().Free(block, stream()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("freed before")));
    EXPECT_THAT(pool().RecordUse(block, stream()),
                StatusIs(absl::StatusCode::kInvalidArgument));
    FIRN_ASSERT_OK_AND_ASSIGN(void* const on_other,
                              AllocateOn(other.stream(), bytes));
    EXPECT_NE(on_other, block);
    FIRN_ASSERT_OK_AND_ASSIGN(void* const smaller,
                              AllocateOn(stream(), bytes / 2));
    EXPECT_NE(smaller, block);
    FIRN_ASSERT_OK_AND_ASSIGN(void* const ordinary, AllocateOn(nullptr, bytes));
    EXPECT_NE(ordinary, block);
    FIRN_ASSERT_OK(pool().EndPool(kId));
    FIRN_ASSERT_OK_AND_ASSIGN(void* const closed, AllocateOn(stream(), bytes));
    EXPECT_NE(closed, block);
    FIRN_ASSERT_OK(pool().BeginPool(GraphPoolId{8}, {stream()}));
    FIRN_ASSERT_OK_AND_ASSIGN(void* const foreign, AllocateOn(stream(), bytes));
    EXPECT_NE(foreign, block);
    FIRN_ASSERT_OK(pool().EndPool(GraphPoolId{8}));
    FIRN_ASSERT_OK(pool().BeginPool(kId));
    // A byte less takes up as much.
    FIRN_ASSERT_OK_AND_ASSIGN(void* const again,
                              AllocateOn(stream(), bytes - 1));
    EXPECT_EQ(again, block);
    FIRN_ASSERT_OK(pool().EndPool(kId));
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }
}

TEST_P(PoolGraphsTest, AGraphsBlocksGoThroughNoCacheOfAThread) {
  constexpr uint64_t kBytes = 4096;
  // The cache has a block for the stream, and room for many.
  for (int i = 0; i < 80; ++i) {
    FIRN_ASSERT_OK(AllocateOn(stream(), kBytes).status());
  }
  FIRN_ASSERT_OK_AND_ASSIGN(void* const cached, AllocateOn(stream(), kBytes));
  FIRN_ASSERT_OK(pool().Free(cached, stream()));
  FIRN_ASSERT_OK(pool().BeginPool(kId));
  const uint64_t hits = pool().GetStats().cache_hits;
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(stream(), kBytes));
    // Without caches it is free: BeginPool has waited for its stream.
    if (GetParam().moves) {
      EXPECT_NE(block, cached);
    }
    blocks.push_back(block);
  }
  EXPECT_EQ(pool().GetStats().cache_hits, hits);
  FIRN_ASSERT_OK(pool().EndPool(kId));
  const uint64_t parked = pool().GetStats().parked_blocks;
  for (void* const block : blocks) FIRN_ASSERT_OK(pool().Free(block, stream()));
  EXPECT_EQ(pool().GetStats().parked_blocks, parked);
  // Not from the cache either.
  FIRN_ASSERT_OK_AND_ASSIGN(void* const after, AllocateOn(stream(), kBytes));
  EXPECT_THAT(blocks, ::testing::Not(::testing::Contains(after)));
  EXPECT_EQ(pool().GetStats().graph_pool_bytes, 20 * kBytes);
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolGraphsTest,
                         ::testing::ValuesIn(GraphSettings()),
                         GraphSettingName);

}  // namespace
}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What was spilled lies in host memory as on the device, and comes back when it
// is in use again.

#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/spill_pool_scene.h"
#include "tests/support/held_stream.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Values;

constexpr uint64_t kGranuleBytes = SpillPool::kGranuleBytes;
constexpr uint64_t kCapacityBytes = SpillPool::kCapacityBytes;
constexpr uint64_t kHostGranules = SpillPool::kHostGranules;

class SpillReturnTest : public ::testing::TestWithParam<CpuSync> {};

INSTANTIATE_TEST_SUITE_P(Extremes, SpillReturnTest,
                         Values(CpuSync::kLazy, CpuSync::kDraining), SyncName);

// --- On the host ---

TEST_P(SpillReturnTest, TheDeviceReadsAndWritesWhereItIs) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  scene.ExpectRescued(2 * kGranuleBytes);
  FilledBlock* const spilled = const_cast<FilledBlock*>(scene.FindOnHost());
  ASSERT_NE(spilled, nullptr);
  StreamHandle stream = nullptr;
  ASSERT_EQ(scene.cpu().StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  spilled->seed = 1234;
  ASSERT_EQ(FillOnStream(&scene.cpu(), *spilled, stream),
            DriverResult::kSuccess);
  FIRN_ASSERT_OK(scene.pool().RecordUse(spilled->ptr, stream));
  ASSERT_EQ(scene.cpu().StreamSynchronize(stream), DriverResult::kSuccess);
  scene.ExpectSound();
  EXPECT_TRUE(scene.IsOnHost(*spilled));
  ASSERT_EQ(scene.cpu().StreamDestroy(stream), DriverResult::kSuccess);
}

TEST_P(SpillReturnTest, NothingNewComesToIt) {
  SpillPool scene(GetParam());
  scene.FillUp(4 * kKiB);
  scene.AllowAll();
  scene.ExpectRescued(2 * kGranuleBytes);
  // Half of what lies on the host goes.
  std::vector<FilledBlock> left;
  bool goes = false;
  for (const FilledBlock& block : scene.blocks()) {
    if (scene.IsOnHost(block) && (goes = !goes)) {
      FIRN_ASSERT_OK(scene.pool().Free(block.ptr));
    } else {
      left.push_back(block);
    }
  }
  scene.blocks() = left;
  const size_t on_host = scene.CountOnHost();
  ASSERT_GT(on_host, 2u);
  const uint64_t spilled = scene.pool().GetStats().granules_spilled;
  FIRN_ASSERT_OK(scene.pool().Compact().status());
  scene.ExpectSound();
  while (scene.pool().GetStats().granules_spilled == spilled &&
         scene.Add(4 * kKiB)) {
    ASSERT_FALSE(scene.IsOnHost(scene.blocks().back()));
  }
  EXPECT_GE(scene.CountOnHost(), on_host);
  scene.ExpectSound();
}

TEST_P(SpillReturnTest, PassesAndTrimLeaveItAlone) {
  SpillPool scene(GetParam());
  scene.FillUp(4 * kKiB);
  scene.AllowAll();
  scene.ExpectRescued(2 * kGranuleBytes);
  const size_t on_host = scene.CountOnHost();
  for (const CompactionLevel level :
       {CompactionLevel::kCallerPromises, CompactionLevel::kLaunchScopes,
        CompactionLevel::kDeclaredIdle}) {
    CompactOptions options;
    options.level = level;
    FIRN_ASSERT_OK(scene.pool().Compact(options).status());
    EXPECT_EQ(scene.CountOnHost(), on_host);
    scene.ExpectSound();
  }
  FIRN_ASSERT_OK(scene.pool().Trim().status());
  EXPECT_EQ(scene.CountOnHost(), on_host);
  scene.ExpectSound();
  const MemorySnapshot snapshot = scene.pool().TakeMemorySnapshot();
  uint64_t blocks = 0;
  for (const MemorySegment& segment : snapshot.segments) {
    for (const MemoryBlock& block : segment.blocks) {
      if (block.state == MemoryBlockState::kAllocated) ++blocks;
    }
  }
  EXPECT_EQ(blocks, scene.blocks().size());
}

TEST_P(SpillReturnTest, ASpilledBlockCannotBePinned) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  scene.ExpectRescued(kGranuleBytes);
  const FilledBlock* const spilled = scene.FindOnHost();
  ASSERT_NE(spilled, nullptr);
  EXPECT_THAT(scene.pool().PinBlock(spilled->ptr, "a card").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("host memory")));
}

// --- Back ---

TEST_P(SpillReturnTest, MarkActiveBringsEveryByteBack) {
  SpillPool scene(GetParam());
  scene.FillUp(4 * kKiB);
  scene.AllowAll();
  scene.ExpectRescued(3 * kGranuleBytes);
  FIRN_ASSERT_OK(scene.pool().Free(scene.blocks().back().ptr));
  scene.blocks().pop_back();
  const FilledBlock* const spilled = scene.FindOnHost();
  ASSERT_NE(spilled, nullptr);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t generation,
                            scene.pool().Generation(spilled->ptr));
  FIRN_ASSERT_OK(scene.pool().MarkActive(spilled->ptr));
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t now,
                            scene.pool().Generation(spilled->ptr));
  EXPECT_GT(now, generation);
  EXPECT_FALSE(scene.IsOnHost(*spilled));
  scene.ExpectSound();
  while (const FilledBlock* const next = scene.FindOnHost()) {
    FIRN_ASSERT_OK(scene.pool().MarkActive(next->ptr));
    scene.ExpectSound();
  }
  const PoolStats stats = scene.pool().GetStats();
  EXPECT_EQ(stats.granules_returned, 3u);
  EXPECT_EQ(stats.bytes_returned, stats.bytes_spilled);
  EXPECT_EQ(stats.spilled_bytes, 0u);
  // Kept for the next spill, until somebody trims.
  EXPECT_EQ(stats.host_held_bytes, 3 * kGranuleBytes);
  FIRN_ASSERT_OK(scene.pool().Trim(kCapacityBytes).status());
  EXPECT_EQ(scene.ledger().bytes(), 0u);
}

TEST_P(SpillReturnTest, WithoutRoomItStaysAndComesBackLater) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  scene.ExpectRescued(kGranuleBytes);
  const FilledBlock spilled = *scene.FindOnHost();
  const uint64_t spillable = scene.pool().GetStats().spillable_blocks;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(scene.pool().MarkActive(spilled.ptr),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr("free some memory and call again")));
    EXPECT_TRUE(scene.IsOnHost(spilled));
    EXPECT_EQ(scene.pool().GetStats().spillable_blocks, spillable);
    scene.ExpectSound();
  }
  // The last one is not.
  scene.FreeAt(scene.blocks().size() - 1);
  FIRN_ASSERT_OK(scene.pool().MarkActive(spilled.ptr));
  EXPECT_FALSE(scene.IsOnHost(spilled));
  EXPECT_EQ(scene.pool().GetStats().spillable_blocks, spillable - 1);
  scene.ExpectSound();
}

TEST_P(SpillReturnTest, ManyRoundsKeepTheBudget) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes / 2);
  for (int round = 0; round < 20; ++round) {
    scene.AllowAll();
    const size_t had = scene.blocks().size();
    // Until the budget is used up.
    while (scene.Add(kGranuleBytes)) {
    }
    ASSERT_GT(scene.blocks().size(), had);
    EXPECT_EQ(scene.ledger().bytes(), kHostGranules * kGranuleBytes);
    scene.ExpectSound();
    while (scene.blocks().size() > had) scene.FreeAt(had);
    while (const FilledBlock* const spilled = scene.FindOnHost()) {
      FIRN_ASSERT_OK(scene.pool().MarkActive(spilled->ptr));
    }
    scene.ExpectSound();
    EXPECT_EQ(scene.pool().GetStats().spilled_bytes, 0u);
  }
  EXPECT_EQ(scene.ledger().peak_bytes(), kHostGranules * kGranuleBytes);
}

TEST_P(SpillReturnTest, WhereItMayNotWaitItIsRefused) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  scene.ExpectRescued(kGranuleBytes);
  scene.FreeAt(scene.blocks().size() - 1);
  const FilledBlock spilled = *scene.FindOnHost();
  {
    const LaunchScope scope(scene.pool(), nullptr);
    EXPECT_THAT(scene.pool().MarkActive(spilled.ptr),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("inside a LaunchScope")));
  }
  const GraphPoolId id{1};
  FIRN_ASSERT_OK(scene.pool().BeginPool(id));
  EXPECT_THAT(scene.pool().MarkActive(spilled.ptr),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  FIRN_ASSERT_OK(scene.pool().EndPool(id));
  FIRN_ASSERT_OK(scene.pool().ReleasePool(id));
  EXPECT_TRUE(scene.IsOnHost(spilled));
  FIRN_ASSERT_OK(scene.pool().MarkActive(spilled.ptr));
  scene.ExpectSound();
}

TEST_P(SpillReturnTest, WhatIsInUseOnTheHostIsWaitedFor) {
  SpillPool scene(GetParam());
  scene.FillUp(4 * kKiB);
  scene.AllowAll();
  scene.ExpectRescued(kGranuleBytes);
  scene.FreeAt(scene.blocks().size() - 1);
  FilledBlock* const spilled = const_cast<FilledBlock*>(scene.FindOnHost());
  ASSERT_NE(spilled, nullptr);
  StreamHandle stream = nullptr;
  ASSERT_EQ(scene.cpu().StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  spilled->seed = 4321;
  ASSERT_EQ(FillOnStream(&scene.cpu(), *spilled, stream),
            DriverResult::kSuccess);
  FIRN_ASSERT_OK(scene.pool().RecordUse(spilled->ptr, stream));
  FIRN_ASSERT_OK(scene.pool().MarkActive(spilled->ptr));
  EXPECT_FALSE(scene.IsOnHost(*spilled));
  scene.ExpectSound();
  ASSERT_EQ(scene.cpu().StreamDestroy(stream), DriverResult::kSuccess);
}

// --- Freed ---

TEST_P(SpillReturnTest, FreeingASpilledBlockGivesItsHostMemoryBack) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes / 2);
  scene.AllowAll();
  scene.ExpectRescued(2 * kGranuleBytes);
  EXPECT_EQ(scene.pool().GetStats().host_used_bytes, 2 * kGranuleBytes);
  const uint64_t mapped = scene.pool().GetStats().mapped_vgs;
  while (const FilledBlock* const spilled = scene.FindOnHost()) {
    scene.FreeAt(static_cast<size_t>(spilled - scene.blocks().data()));
    scene.ExpectSound();
  }
  const PoolStats stats = scene.pool().GetStats();
  EXPECT_EQ(stats.spilled_bytes, 0u);
  EXPECT_EQ(stats.host_used_bytes, 0u);
  EXPECT_LT(stats.mapped_vgs, mapped);
  // It serves the next spill.
  scene.AllowAll();
  scene.ExpectRescued(kGranuleBytes);
  EXPECT_EQ(scene.ledger().bytes(), 2 * kGranuleBytes);
}

TEST_P(SpillReturnTest, WhatIsFreedBesideOthersGivesItsMappingBack) {
  SpillPool scene(GetParam());
  // Two windows to a granule.
  while (scene.Add(kGranuleBytes / 2 - 4 * kKiB) &&
         scene.Add(kGranuleBytes / 4)) {
  }
  scene.AllowAll();
  scene.ExpectRescued(2 * kGranuleBytes);
  uint32_t beside_others = 0;
  while (const FilledBlock* const spilled = scene.FindOnHost()) {
    const PoolStats before = scene.pool().GetStats();
    scene.FreeAt(static_cast<size_t>(spilled - scene.blocks().data()));
    scene.ExpectSound();
    const PoolStats after = scene.pool().GetStats();
    EXPECT_EQ(before.mapped_vgs - after.mapped_vgs,
              before.live_vgs - after.live_vgs);
    if (after.live_vgs < before.live_vgs &&
        after.host_used_bytes == before.host_used_bytes) {
      ++beside_others;
    }
  }
  EXPECT_GT(beside_others, 0u);
}

TEST_P(SpillReturnTest, ALargeBlockMayBeFreedThatLiesOnBoth) {
  SpillPool scene(GetParam());
  ASSERT_TRUE(scene.Add(kCapacityBytes / 2 + 20 * kKiB));
  scene.FillUp(4 * kKiB);
  FIRN_ASSERT_OK(scene.pool().AllowSpill(scene.blocks()[0].ptr, nullptr));
  scene.ExpectRescued(3 * kGranuleBytes);
  scene.FreeAt(0);
  scene.ExpectSound();
  EXPECT_EQ(scene.pool().GetStats().host_used_bytes, 0u);
  ASSERT_TRUE(scene.Add(4 * kGranuleBytes));
  scene.ExpectSound();
}

TEST_P(SpillReturnTest, ABlockThatIsUsedOnTheHostIsFreedWhenThatIsDone) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  scene.ExpectRescued(kGranuleBytes);
  StreamHandle stream = nullptr;
  ASSERT_EQ(scene.cpu().StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  const FilledBlock spilled = *scene.FindOnHost();
  ASSERT_EQ(FillOnStream(&scene.cpu(), spilled, stream),
            DriverResult::kSuccess);
  FIRN_ASSERT_OK(scene.pool().RecordUse(spilled.ptr, stream));
  scene.FreeAt(static_cast<size_t>(scene.FindOnHost() - scene.blocks().data()));
  // Its memory is not handed out again, on no stream.
  EXPECT_FALSE(scene.Add(kGranuleBytes) &&
               scene.IsOnHost(scene.blocks().back()));
  ASSERT_EQ(scene.cpu().CtxSynchronize(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(scene.pool().Trim(kCapacityBytes).status());
  scene.ExpectSound();
  ASSERT_EQ(scene.cpu().StreamDestroy(stream), DriverResult::kSuccess);
}

}  // namespace
}  // namespace firn::testing

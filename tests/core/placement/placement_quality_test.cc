// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much memory a pool uses beside what is live in it, without moving any.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/small_random.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

constexpr uint64_t kGranule = 2 * kMiB;

// Allocates blocks of `bytes` until one does not fit.
std::vector<void*> Fill(Pool* pool, uint64_t bytes) {
  std::vector<void*> blocks;
  while (true) {
    absl::StatusOr<void*> block = pool->Allocate(bytes);
    if (!block.ok()) {
      EXPECT_THAT(block, StatusIs(absl::StatusCode::kResourceExhausted));
      return blocks;
    }
    blocks.push_back(*block);
  }
}

// `blocks` of 6 MiB on granules of their own come and go: what they leave is
// one run of empty granules, all of them mapped.
void LeaveMappedRun(Pool* pool, int blocks) {
  std::vector<void*> made;
  for (int i = 0; i < blocks; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* block, pool->Allocate(3 * kGranule));
    made.push_back(block);
  }
  for (void* block : made) FIRN_ASSERT_OK(pool->Free(block));
}

TEST(PlacementQualityTest, APoolFullOfBlocksOf3MiBUsesLittleMoreThanIsLive) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(8 * kGiB));
  Pool& pool = on_cpu->pool();
  Fill(&pool, 3 * kMiB);
  const PoolStats stats = pool.GetStats();
  EXPECT_GE(stats.live_bytes, 8 * kGiB - 4 * kMiB);
  EXPECT_LE(stats.used_bytes * 100, stats.live_bytes * 101);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

// Two in three are freed and others take their place, again and again.
TEST(PlacementQualityTest, BlocksOf3MiBThatComeAndGoStayTogether) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(2 * kGiB));
  Pool& pool = on_cpu->pool();
  SmallRandom random(1);
  std::vector<void*> live = Fill(&pool, 3 * kMiB);
  for (int round = 0; round < 10; ++round) {
    std::vector<void*> kept;
    for (void* block : live) {
      if (random.OneIn(3)) {
        kept.push_back(block);
      } else {
        FIRN_ASSERT_OK(pool.Free(block));
      }
    }
    live = std::move(kept);
    for (void* block : Fill(&pool, 3 * kMiB)) live.push_back(block);
    const PoolStats stats = pool.GetStats();
    EXPECT_LE(stats.used_bytes * 100, stats.live_bytes * 102) << round;
  }
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

// As long as each remainder takes a granule of its own from the mapped run,
// eleven blocks fit.
TEST(PlacementQualityTest, RemaindersShareGranulesOnceMemoryRunsOut) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(32 * kGranule));
  Pool& pool = on_cpu->pool();
  LeaveMappedRun(&pool, 10);
  EXPECT_EQ(Fill(&pool, 2 * kGranule + kGranule / 8).size(), 12u);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

TEST(PlacementQualityTest, RemaindersAskNothingOfTheDriverWhileMemoryIsFree) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(320 * kGranule));
  Pool& pool = on_cpu->pool();
  LeaveMappedRun(&pool, 10);
  const uint64_t calls = on_cpu->faults().calls();
  for (int i = 0; i < 10; ++i) {
    FIRN_ASSERT_OK(pool.Allocate(2 * kGranule + kGranule / 8));
  }
  EXPECT_EQ(on_cpu->faults().calls(), calls);
}

// Each driver call of the allocation that first shares fails in turn.
TEST(PlacementQualityTest, SharingThatFailsChangesNothingAndCanBeRetried) {
  constexpr uint64_t kBytes = 2 * kGranule + kGranule / 8;
  for (uint64_t n = 0;; ++n) {
    FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(32 * kGranule));
    Pool& pool = on_cpu->pool();
    LeaveMappedRun(&pool, 10);
    // Until the next one would ask the driver.
    FaultingDriver& faults = on_cpu->faults();
    faults.Reset();
    absl::Status status;
    PoolStats before;
    while (status.ok() && faults.calls() == 0) {
      before = pool.GetStats();
      faults.FailNth(n, DriverResult::kUnknown);
      status = pool.Allocate(kBytes).status();
    }
    if (status.ok()) {
      EXPECT_GT(n, 1u);  // at least a map and a set-access have failed
      return;
    }
    EXPECT_EQ(pool.GetStats().live_bytes, before.live_bytes);
    EXPECT_EQ(pool.GetStats().used_bytes, before.used_bytes);
    EXPECT_EQ(pool.GetStats().mapped_vgs, before.mapped_vgs);
    faults.Reset();
    FIRN_EXPECT_OK(pool.CheckInvariants());
    FIRN_EXPECT_OK(pool.Allocate(kBytes));
    FIRN_EXPECT_OK(pool.CheckInvariants());
  }
}

// Windows that leave three eighths of a granule would waste a twelfth here.
TEST(PlacementQualityTest, HalfGranulesFitBesideManyBlocksOf192KiB) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(2 * kGiB));
  Pool& pool = on_cpu->pool();
  // A quarter of the memory.
  for (uint64_t bytes = 0; bytes < kGiB / 2; bytes += 192 * kKiB) {
    FIRN_ASSERT_OK(pool.Allocate(192 * kKiB));
  }
  Fill(&pool, 512 * kKiB);
  const PoolStats stats = pool.GetStats();
  EXPECT_LE(stats.used_bytes * 1000, stats.live_bytes * 1015);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

}  // namespace
}  // namespace firn::testing

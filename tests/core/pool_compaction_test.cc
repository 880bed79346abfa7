// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Live memory moves beneath addresses that stay.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "firn/core/pool.h"
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
using ::firn::testing::FillOnStream;
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;

constexpr uint64_t kGranule = 2 * kMiB;

// Fills the pool with blocks of mixed sizes, of whole granules too if `large`,
// until nothing fits.
std::vector<FilledBlock> FillPool(Pool* pool, uint64_t seed,
                                  bool large = true) {
  constexpr uint64_t kSizes[] = {
      512,        4 * kKiB,   10 * kKiB,         32 * kKiB,
      50 * kKiB,  64 * kKiB,  96 * kKiB,         192 * kKiB,
      300 * kKiB, 512 * kKiB, kMiB + 100 * kKiB, 3 * kMiB + 300 * kKiB};
  std::mt19937_64 random(seed);
  std::vector<FilledBlock> blocks;
  while (true) {
    const uint64_t bytes =
        kSizes[random() % (std::size(kSizes) - (large ? 0 : 1))];
    const absl::StatusOr<void*> ptr = pool->Allocate(bytes);
    if (!ptr.ok()) break;
    blocks.push_back({*ptr, bytes, blocks.size()});
  }
  return blocks;
}

// Frees `percent` of the blocks, but never the last small one of those that
// start in the same granule of addresses: hardly any granule becomes empty.
std::vector<FilledBlock> FreeMost(Pool* pool, std::vector<FilledBlock> blocks,
                                  unsigned percent, uint64_t seed) {
  constexpr uint64_t kSmall = 256 * kKiB;
  const auto granule_of = [](const FilledBlock& block) {
    return reinterpret_cast<uintptr_t>(block.ptr) / kGranule;
  };
  absl::flat_hash_map<uint64_t, int> small_left;
  for (const FilledBlock& block : blocks) {
    if (block.bytes < kSmall) ++small_left[granule_of(block)];
  }
  std::mt19937_64 random(seed);
  std::shuffle(blocks.begin(), blocks.end(), random);
  std::vector<FilledBlock> kept;
  for (const FilledBlock& block : blocks) {
    const bool is_small = block.bytes < kSmall;
    if (random() % 100 >= percent ||
        (is_small && small_left[granule_of(block)] == 1)) {
      kept.push_back(block);
      continue;
    }
    if (is_small) --small_left[granule_of(block)];
    EXPECT_TRUE(pool->Free(block.ptr).ok());
  }
  return kept;
}

class PoolCompactionSyncTest : public ::testing::TestWithParam<CpuSync> {};

TEST_P(PoolCompactionSyncTest, MovesMixedBlocksCloseToTheLowerBound) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      auto on_cpu,
      PoolOnCpu::Real(512 * kMiB, /*move_on_failure=*/false, GetParam()));
  Pool& pool = on_cpu->pool();
  std::vector<FilledBlock> blocks = FillPool(&pool, 7, /*large=*/false);
  ASSERT_GT(blocks.size(), 1000u);
  const uint64_t used_when_full = pool.GetStats().used_bytes;
  blocks = FreeMost(&pool, std::move(blocks), 85, 8);
  const PoolStats before = pool.GetStats();
  // Nearly every granule still holds something; each is only partly filled.
  EXPECT_GT(before.used_bytes, used_when_full * 85 / 100);
  EXPECT_EQ(before.partial_granules * kGranule, before.used_bytes);
  EXPECT_LT(before.live_bytes, before.used_bytes / 3);

  // More than the free granules can hold.
  const uint64_t large = before.capacity_bytes - before.used_bytes + 64 * kMiB;
  EXPECT_THAT(pool.Allocate(large),
              StatusIs(absl::StatusCode::kResourceExhausted));

  // Kernels write right up to the pass: it has to wait for them by itself.
  StreamHandle stream = nullptr;
  ASSERT_EQ(on_cpu->cpu().StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  for (const FilledBlock& block : blocks) {
    ASSERT_EQ(FillOnStream(&on_cpu->cpu(), block, stream),
              DriverResult::kSuccess);
  }
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool.Compact());

  EXPECT_EQ(CountDamaged(blocks), 0u);
  EXPECT_GT(report.moves, 0u);
  EXPECT_EQ(report.granules_after * kGranule, pool.GetStats().used_bytes);
  EXPECT_LT(report.granules_after, report.granules_before / 2);
  EXPECT_LE(static_cast<double>(report.granules_after),
            1.10 * static_cast<double>(report.lower_bound_granules))
      << report.ToString();
  FIRN_EXPECT_OK(pool.CheckInvariants());

  // The granules gained serve what failed before.
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(large));
  Fill({ptr, large, 4711});
  EXPECT_EQ(CountDamaged(blocks), 0u);
  EXPECT_TRUE(IsIntact({ptr, large, 4711}));
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolCompactionSyncTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         ::firn::testing::SyncName);

TEST(PoolCompactionTest, ASecondPassFindsNothingMoreToDo) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(256 * kMiB));
  Pool& pool = on_cpu->pool();
  FreeMost(&pool, FillPool(&pool, 1), 80, 2);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport first, pool.Compact());
  EXPECT_GT(first.granules_recovered, 0u);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport second, pool.Compact());
  EXPECT_LE(second.granules_recovered, first.granules_recovered / 10);
}

TEST(PoolCompactionTest, BlocksAreFreedAndAllocatedAsBeforeAfterAMove) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Real(128 * kMiB));
  Pool& pool = on_cpu->pool();
  std::vector<FilledBlock> blocks = FillPool(&pool, 3);
  blocks = FreeMost(&pool, std::move(blocks), 70, 4);
  for (const FilledBlock& block : blocks) Fill(block);
  for (uint64_t round = 0; round < 4; ++round) {
    FIRN_ASSERT_OK(pool.Compact());
    std::vector<FilledBlock> more = FillPool(&pool, 10 + round);
    for (FilledBlock& block : more) {
      block.seed += 1000000 * (round + 1);
      Fill(block);
      blocks.push_back(block);
    }
    ASSERT_EQ(CountDamaged(blocks), 0u);
    blocks = FreeMost(&pool, std::move(blocks), 60, 20 + round);
    ASSERT_EQ(CountDamaged(blocks), 0u);
    FIRN_ASSERT_OK(pool.CheckInvariants());
  }
  for (const FilledBlock& block : blocks) FIRN_ASSERT_OK(pool.Free(block.ptr));
  EXPECT_EQ(pool.GetStats().used_bytes, 0u);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

TEST(PoolCompactionTest, TheGenerationGrowsForWhatMovedOnly) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(128 * kMiB));
  Pool& pool = on_cpu->pool();
  const std::vector<FilledBlock> blocks =
      FreeMost(&pool, FillPool(&pool, 5), 80, 6);
  std::vector<uint64_t> before;
  for (const FilledBlock& block : blocks) {
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t generation,
                              pool.Generation(block.ptr));
    before.push_back(generation);
  }
  FIRN_ASSERT_OK(pool.Compact());
  size_t grown = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t generation,
                              pool.Generation(blocks[i].ptr));
    ASSERT_GE(generation, before[i]);
    if (generation > before[i]) ++grown;
  }
  EXPECT_GT(grown, 0u);
  EXPECT_LT(grown, blocks.size());
}

TEST(PoolCompactionTest, ADryRunPredictsThePassAndMovesNothing) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(256 * kMiB));
  Pool& pool = on_cpu->pool();
  FreeMost(&pool, FillPool(&pool, 5), 80, 6);
  CompactOptions options;
  options.dry_run = true;
  const uint64_t calls = on_cpu->faults().calls();
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport dry, pool.Compact(options));
  EXPECT_EQ(on_cpu->faults().calls(), calls);
  EXPECT_EQ(pool.GetStats().granules_moved, 0u);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport real, pool.Compact());
  EXPECT_EQ(dry.granules_recovered, real.granules_recovered);
  EXPECT_EQ(dry.moves, real.moves);
  EXPECT_EQ(dry.bytes_copied, real.bytes_copied);
  EXPECT_EQ(dry.granules_after, real.granules_after);
}

TEST(PoolCompactionTest, BudgetsHold) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(256 * kMiB));
  Pool& pool = on_cpu->pool();
  FreeMost(&pool, FillPool(&pool, 5), 80, 6);
  CompactOptions bytes;
  bytes.max_bytes = 3 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(CompactionReport report, pool.Compact(bytes));
  EXPECT_LE(report.bytes_copied, bytes.max_bytes);
  EXPECT_GT(report.moves, 0u);
  EXPECT_TRUE(report.budget_exhausted);
  CompactOptions moves;
  moves.max_moves = 10;
  FIRN_ASSERT_OK_AND_ASSIGN(report, pool.Compact(moves));
  EXPECT_LE(report.moves, 10u);
  EXPECT_TRUE(report.budget_exhausted);
  CompactOptions wanted;
  wanted.wanted_granules = 2;
  FIRN_ASSERT_OK_AND_ASSIGN(report, pool.Compact(wanted));
  EXPECT_EQ(report.granules_recovered, 2u);
  EXPECT_FALSE(report.budget_exhausted);
  CompactOptions time;
  time.max_duration = absl::ZeroDuration();
  FIRN_ASSERT_OK_AND_ASSIGN(report, pool.Compact(time));
  EXPECT_EQ(report.moves, 0u);
  EXPECT_TRUE(report.budget_exhausted);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

// Two granules of four blocks each; one lacks its first, the other its second.
// A block of half a granule fits only if one of them moves over.
void LeaveTwoQuarterHoles(Pool* pool, std::vector<FilledBlock>* kept) {
  std::vector<FilledBlock> blocks;
  for (uint64_t i = 0; i < 8; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool->Allocate(kGranule / 4));
    blocks.push_back({ptr, kGranule / 4, i});
    Fill(blocks.back());
  }
  // The first four fill a granule before the next one is taken.
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint64_t offset =
        reinterpret_cast<uintptr_t>(blocks[i].ptr) % kGranule;
    if (offset == (i < 4 ? 0 : kGranule / 4)) {
      FIRN_ASSERT_OK(pool->Free(blocks[i].ptr));
    } else {
      kept->push_back(blocks[i]);
    }
  }
  ASSERT_EQ(kept->size(), 6u);
}

TEST(PoolCompactionTest, AHoleIsOpenedWhereNoWholeGranuleCanBeEmptied) {
  for (const bool allowed : {false, true}) {
    SCOPED_TRACE(allowed);
    FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu,
                              PoolOnCpu::Real(2 * kGranule, allowed));
    Pool& pool = on_cpu->pool();
    std::vector<FilledBlock> kept;
    ASSERT_NO_FATAL_FAILURE(LeaveTwoQuarterHoles(&pool, &kept));
    const absl::StatusOr<void*> ptr = pool.Allocate(kGranule / 2);
    EXPECT_EQ(ptr.ok(), allowed) << ptr.status();
    EXPECT_EQ(pool.GetStats().granules_moved, allowed ? 1u : 0u);
    if (ptr.ok()) {
      kept.push_back({*ptr, kGranule / 2, 99});
      Fill(kept.back());
    }
    EXPECT_EQ(CountDamaged(kept), 0u);
    FIRN_EXPECT_OK(pool.CheckInvariants());
  }
}

TEST(PoolCompactionTest, OpeningAHoleMayFailAtEveryCall) {
  uint64_t reported = 0;
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    FIRN_ASSERT_OK_AND_ASSIGN(
        auto on_cpu, PoolOnCpu::Real(2 * kGranule, /*move_on_failure=*/true));
    Pool& pool = on_cpu->pool();
    std::vector<FilledBlock> kept;
    ASSERT_NO_FATAL_FAILURE(LeaveTwoQuarterHoles(&pool, &kept));
    const uint64_t live_bytes = pool.GetStats().live_bytes;
    on_cpu->faults().FailNth(n, DriverResult::kUnknown);
    const absl::Status status = pool.Allocate(kGranule / 2).status();
    const bool reached = on_cpu->faults().failures() > 0;
    on_cpu->faults().Reset();
    EXPECT_EQ(CountDamaged(kept), 0u);
    FIRN_ASSERT_OK(pool.CheckInvariants());
    if (!status.ok()) {
      ++reported;
      EXPECT_TRUE(reached) << status;
      EXPECT_EQ(pool.GetStats().live_bytes, live_bytes);
      FIRN_ASSERT_OK(pool.Allocate(kGranule / 2));
      EXPECT_EQ(CountDamaged(kept), 0u);
    }
    if (!reached) break;
  }
  // Waits, the copy, its event, unmap, map and set-access.
  EXPECT_GE(reported, 6u);
}

TEST(PoolCompactionTest, AskingAgainForWhatDoesNotFitMovesNothing) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      auto on_cpu, PoolOnCpu::Ghost(64 * kMiB, /*move_on_failure=*/true));
  Pool& pool = on_cpu->pool();
  FreeMost(&pool, FillPool(&pool, 5), 10, 6);
  for (const uint64_t bytes : {33 * kKiB, 400 * kKiB, kMiB}) {
    SCOPED_TRACE(bytes);
    while (pool.Allocate(bytes).ok()) {
    }
    const uint64_t moved = pool.GetStats().granules_moved;
    for (int i = 0; i < 5; ++i) {
      EXPECT_THAT(pool.Allocate(bytes),
                  StatusIs(absl::StatusCode::kResourceExhausted));
    }
    EXPECT_EQ(pool.GetStats().granules_moved, moved);
  }
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

TEST(PoolCompactionTest, AFailingAllocationMovesOnlyWhereAllowed) {
  for (const bool allowed : {false, true}) {
    SCOPED_TRACE(allowed);
    FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu,
                              PoolOnCpu::Real(128 * kMiB, allowed));
    Pool& pool = on_cpu->pool();
    const std::vector<FilledBlock> blocks =
        FreeMost(&pool, FillPool(&pool, 5), 85, 6);
    for (const FilledBlock& block : blocks) Fill(block);
    const PoolStats stats = pool.GetStats();
    const absl::StatusOr<void*> ptr =
        pool.Allocate(stats.capacity_bytes - stats.used_bytes + 16 * kMiB);
    EXPECT_EQ(ptr.ok(), allowed) << ptr.status();
    EXPECT_EQ(pool.GetStats().granules_moved > 0, allowed);
    EXPECT_EQ(CountDamaged(blocks), 0u);
    FIRN_EXPECT_OK(pool.CheckInvariants());
  }
}

}  // namespace
}  // namespace firn

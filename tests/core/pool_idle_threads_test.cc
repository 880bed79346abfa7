// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads use their blocks and let them rest, and passes move what rests.

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "gtest/gtest.h"
#include "tests/core/pool_idle_scene.h"
#include "tests/support/sanitizers.h"

namespace firn {
namespace {

using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::kUnderThreadSanitizer;
using ::firn::testing::PoolIdleScene;
using ::firn::testing::SyncName;

class PoolIdleThreadsTest : public PoolIdleScene {
 protected:
  // What one thread does until `stop`, each time inside a scope: allocates,
  // writes, lets rest, uses again, frees.
  void UseBlocks(uint64_t seed, const std::atomic<bool>& stop,
                 std::atomic<uint64_t>* damaged) {
    std::mt19937_64 random(seed);
    struct Resting {
      FilledBlock block;
      bool is_idle = false;
    };
    std::vector<Resting> blocks;
    uint64_t next_seed = seed << 32;
    while (!stop.load()) {
      const LaunchScope scope(pool(), nullptr);
      if (blocks.size() < 40) {
        const uint64_t bytes = uint64_t{512} << random() % 6;
        const absl::StatusOr<void*> ptr = pool().Allocate(bytes);
        if (!ptr.ok()) continue;
        blocks.push_back({{*ptr, bytes, next_seed++}});
        Fill(blocks.back().block);
      }
      Resting& one = blocks[random() % blocks.size()];
      switch (random() % 4) {
        case 0:
          FIRN_EXPECT_OK(pool().MarkIdle(one.block.ptr, nullptr));
          one.is_idle = true;
          break;
        case 1:
          FIRN_EXPECT_OK(pool().MarkActive(one.block.ptr));
          one.is_idle = false;
          if (!IsIntact(one.block)) ++*damaged;
          // A copy that was cancelled may still be reading, for nothing: the
          // sanitizer would call that a race.
          if (!kUnderThreadSanitizer) {
            one.block.seed = next_seed++;
            Fill(one.block);
          }
          break;
        case 2:
          if (!one.is_idle && !IsIntact(one.block)) ++*damaged;
          break;
        default:
          if (random() % 4 != 0) break;
          FIRN_EXPECT_OK(pool().Free(one.block.ptr));
          std::swap(one, blocks.back());
          blocks.pop_back();
          break;
      }
    }
    const LaunchScope scope(pool(), nullptr);
    for (const Resting& resting : blocks) {
      FIRN_EXPECT_OK(pool().MarkActive(resting.block.ptr));
      if (!IsIntact(resting.block)) ++*damaged;
      FIRN_EXPECT_OK(pool().Free(resting.block.ptr));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Extremes, PoolIdleThreadsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(PoolIdleThreadsTest, ContentsStayWhilePassesMoveWhatRests) {
  MakePool(2 * kMiB);
  Fragment(/*keep=*/12, /*bytes=*/2 * kKiB);
  // All that rests for good: there is something to move at first.
  MarkAllIdle();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> damaged{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 2; ++t) {
    threads.emplace_back([&, t] { UseBlocks(t, stop, &damaged); });
  }
  uint64_t moves = 0;
  const absl::Time end = absl::Now() + absl::Milliseconds(700);
  while (absl::Now() < end) {
    const absl::StatusOr<CompactionReport> report = pool().Compact(IdleOnly());
    FIRN_EXPECT_OK(report.status());
    if (report.ok()) moves += report->moves;
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged.load(), 0u);
  EXPECT_GT(moves, 0u);
}

TEST_P(PoolIdleThreadsTest, PassesOfAllLevelsTakeTurns) {
  MakePool(2 * kMiB);
  Fragment(/*keep=*/12, /*bytes=*/2 * kKiB);
  MarkAllIdle();
  std::atomic<bool> stop{false};
  std::thread level_1([&] {
    CompactOptions options;
    options.level = CompactionLevel::kLaunchScopes;
    while (!stop.load()) FIRN_EXPECT_OK(pool().Compact(options).status());
  });
  std::atomic<uint64_t> damaged{0};
  std::thread user([&] { UseBlocks(7, stop, &damaged); });
  const absl::Time end = absl::Now() + absl::Milliseconds(500);
  while (absl::Now() < end) {
    FIRN_EXPECT_OK(pool().Compact(IdleOnly()).status());
  }
  stop.store(true);
  level_1.join();
  user.join();
  EXPECT_EQ(damaged.load(), 0u);
}

}  // namespace
}  // namespace firn

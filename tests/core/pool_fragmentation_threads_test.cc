// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool's fragmentation asked for while other threads use it: each answer is
// right in itself.

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "firn/core/pool.h"
#include "gtest/gtest.h"
#include "tests/support/fragmentation_identities.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::FragmentationIdentities;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::SyncName;

class PoolFragmentationThreadsTest : public ::testing::TestWithParam<CpuSync> {
};

TEST_P(PoolFragmentationThreadsTest, EachAnswerIsRightInItself) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto on_cpu,
      PoolOnCpu::Real(64 * kMiB, /*move_on_failure=*/false, GetParam()));
  Pool& pool = on_cpu->pool();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&pool, &stop, t] {
      std::mt19937_64 random(t);
      std::vector<void*> blocks;
      while (!stop.load()) {
        // Most of it in caches, without the pool's lock.
        const uint64_t bytes = random() % 16 == 0 ? random() % (3 * kMiB) + 1
                                                  : random() % kKiB + 1;
        const absl::StatusOr<void*> ptr = pool.Allocate(bytes);
        if (ptr.ok()) blocks.push_back(*ptr);
        while (blocks.size() > (ptr.ok() ? 50 : 0)) {
          std::swap(blocks[random() % blocks.size()], blocks.back());
          FIRN_EXPECT_OK(pool.Free(blocks.back()));
          blocks.pop_back();
        }
      }
      for (void* const ptr : blocks) FIRN_EXPECT_OK(pool.Free(ptr));
    });
  }
  threads.emplace_back([&pool, &stop] {
    while (!stop.load()) FIRN_EXPECT_OK(pool.Compact().status());
  });
  for (int i = 0; i < 200; ++i) {
    FIRN_EXPECT_OK(FragmentationIdentities(pool.GetFragmentation()).status());
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  const FragmentationStats figures = pool.GetFragmentation();
  FIRN_EXPECT_OK(
      FragmentationIdentities(figures).With(pool.GetStats()).status());
  EXPECT_EQ(figures.used_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolFragmentationThreadsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads capture at the same time, each with a graph-private pool of its own,
// while others use the pool as ever and passes are asked for.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stream_capture.h"

namespace firn {
namespace {

using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StreamCapture;
using ::firn::testing::SyncName;

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr int kRounds = 12;

class PoolGraphsThreadsTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_,
        PoolOnCpu::Real(64 * kMiB, /*move_on_failure=*/false, GetParam()));
  }

  Pool& pool() { return on_cpu_->pool(); }
  CpuDriver& cpu() { return on_cpu_->cpu(); }

  // Captures kernels that fill a temporary, check and free it, several times,
  // and runs the graph twice; over and over.
  void CaptureAndRun(uint64_t thread, std::atomic<uint64_t>* damaged) {
    StreamCapture capture(&cpu());
    AllocateOptions options;
    options.stream = capture.stream();
    const GraphPoolId id{thread};
    for (uint64_t round = 0; round < kRounds; ++round) {
      FIRN_ASSERT_OK(pool().BeginPool(id));
      ASSERT_EQ(capture.Begin(CaptureMode::kThreadLocal), kOk);
      std::vector<void*> kept;
      for (uint64_t i = 0; i < 6; ++i) {
        FilledBlock block;
        block.bytes = i % 3 == 2 ? 2 * kMiB + 512 : (i + 1) * 3 * kKiB;
        block.seed = thread << 32 | round << 16 | i;
        const absl::StatusOr<void*> ptr = pool().Allocate(block.bytes, options);
        FIRN_ASSERT_OK(ptr.status());
        block.ptr = *ptr;
        KernelRange range;
        range.address = reinterpret_cast<uintptr_t>(block.ptr);
        range.bytes = block.bytes;
        range.writes = true;
        const auto fill = [block] { Fill(block); };
        const auto check = [block, damaged] {
          if (!IsIntact(block)) ++*damaged;
        };
        ASSERT_EQ(cpu().LaunchKernel(options.stream, {range}, fill), kOk);
        ASSERT_EQ(cpu().LaunchKernel(options.stream, {range}, check), kOk);
        if (i % 2 == 0) {
          FIRN_ASSERT_OK(pool().Free(block.ptr, options.stream));
        } else {
          kept.push_back(block.ptr);
        }
      }
      ASSERT_EQ(capture.End(), kOk);
      FIRN_ASSERT_OK(pool().EndPool(id));
      for (int run = 0; run < 2; ++run) ASSERT_EQ(capture.Run(), kOk);
      for (void* const ptr : kept) {
        FIRN_ASSERT_OK(pool().Free(ptr, options.stream));
      }
      // Now and then for good; else the next round shares the pool.
      if (round % 3 != 2) continue;
      for (int use = 0; use < 3; ++use) FIRN_ASSERT_OK(pool().ReleasePool(id));
    }
  }
  // Ordinary blocks, filled and checked.
  void UseOrdinaryBlocks(uint64_t thread, const std::atomic<bool>& stop,
                         std::atomic<uint64_t>* damaged) {
    std::vector<FilledBlock> blocks;
    for (uint64_t i = 0; !stop.load(); ++i) {
      const uint64_t bytes = i % 7 == 0 ? 2 * kMiB : (i % 5 + 1) * 2 * kKiB;
      const absl::StatusOr<void*> ptr = pool().Allocate(bytes);
      if (ptr.ok()) {
        blocks.push_back({*ptr, bytes, thread << 32 | i});
        Fill(blocks.back());
      }
      if (ptr.ok() && blocks.size() < 8) continue;
      const size_t victim = i % blocks.size();
      if (!IsIntact(blocks[victim])) ++*damaged;
      FIRN_EXPECT_OK(pool().Free(blocks[victim].ptr));
      blocks[victim] = blocks.back();
      blocks.pop_back();
    }
    for (const FilledBlock& block : blocks) {
      if (!IsIntact(block)) ++*damaged;
      FIRN_EXPECT_OK(pool().Free(block.ptr));
    }
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

TEST_P(PoolGraphsThreadsTest, TwoThreadsCaptureWhileOthersGoOn) {
  std::atomic<uint64_t> damaged{0};
  std::atomic<bool> stop{false};
  std::thread ordinary([&] { UseOrdinaryBlocks(9, stop, &damaged); });
  std::thread trimming([&] {
    while (!stop.load()) {
      FIRN_EXPECT_OK(pool().Trim(32 * kMiB).status());
      FIRN_EXPECT_OK(pool().CheckInvariants());
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> capturing;
  for (uint64_t thread = 1; thread <= 2; ++thread) {
    capturing.emplace_back([&, thread] { CaptureAndRun(thread, &damaged); });
  }
  for (std::thread& thread : capturing) thread.join();
  stop.store(true);
  ordinary.join();
  trimming.join();
  EXPECT_EQ(damaged.load(), 0u);
  EXPECT_EQ(cpu().loss(), "");
  FIRN_ASSERT_OK(pool().CheckInvariants());
  PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.graph_pools, 0u);
  EXPECT_EQ(stats.live_bytes, 0u);
  FIRN_ASSERT_OK(pool().Trim().status());
  FIRN_ASSERT_OK(pool().Trim().status());
  stats = pool().GetStats();
  EXPECT_EQ(stats.pending_free_bytes, 0u);
  EXPECT_EQ(stats.held_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolGraphsThreadsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn

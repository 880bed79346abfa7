// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory moves while threads launch inside scopes: what is in flight is waited
// for, or nothing moves.

#include "firn/core/launch_scope.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/held_stream.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::FillOnStream;
using ::firn::testing::HeldStream;
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::kUnderThreadSanitizer;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;
using ::testing::HasSubstr;

constexpr uint64_t kBlockBytes = 256 * kKiB;

CompactOptions Gated(absl::Duration max_wait = absl::Seconds(30)) {
  CompactOptions options;
  options.level = CompactionLevel::kLaunchScopes;
  options.max_wait = max_wait;
  return options;
}

class LaunchScopeTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_,
        PoolOnCpu::Real(32 * kMiB, /*move_on_failure=*/true, GetParam()));
  }

  Pool& pool() { return on_cpu_->pool(); }
  CpuDriver& cpu() { return on_cpu_->cpu(); }

  // Fills the pool with blocks and frees all but every eighth: most of what
  // the pool uses could be recovered.
  void Fragment() {
    std::vector<void*> casualties;
    for (uint64_t i = 0;; ++i) {
      AllocateOptions options;
      const absl::StatusOr<void*> block = pool().Allocate(kBlockBytes, options);
      if (!block.ok()) break;
      if (i % 8 != 0) {
        casualties.push_back(*block);
        continue;
      }
      FilledBlock survivor;
      survivor.ptr = *block;
      survivor.bytes = kBlockBytes;
      survivor.seed = i;
      Fill(survivor);
      survivors_.push_back(survivor);
    }
    ASSERT_GE(survivors_.size(), 8u);
    for (void* casualty : casualties) FIRN_ASSERT_OK(pool().Free(casualty));
  }

  std::vector<uint64_t> Generations() {
    std::vector<uint64_t> generations;
    for (const FilledBlock& block : survivors_) {
      const absl::StatusOr<uint64_t> generation = pool().Generation(block.ptr);
      EXPECT_TRUE(generation.ok());
      generations.push_back(generation.value_or(0));
    }
    return generations;
  }

  void ExpectAllIntact() {
    EXPECT_EQ(CountDamaged(survivors_), 0u);
    FIRN_EXPECT_OK(pool().CheckInvariants());
    EXPECT_EQ(cpu().loss(), "");
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
  std::vector<FilledBlock> survivors_;
};

TEST_P(LaunchScopeTest, APassWaitsForWhatWasLaunchedInScopes) {
  Fragment();
  HeldStream work(&cpu());
  // Tokens are awaited, and not the device: allocations that failed have closed
  // the gate before, and so armed it.
  for (int round = 0; round < 2; ++round) {
    {
      const LaunchScope scope(pool(), work.stream());
      ASSERT_EQ(work.Hold(), DriverResult::kSuccess);
      for (FilledBlock& block : survivors_) {
        block.seed += 1000;
        ASSERT_EQ(FillOnStream(&cpu(), block, work.stream()),
                  DriverResult::kSuccess);
      }
    }
    std::thread releaser([&work] {
      absl::SleepFor(absl::Milliseconds(20));
      work.Release();
    });
    const absl::StatusOr<CompactionReport> report = pool().Compact(Gated());
    releaser.join();
    FIRN_ASSERT_OK(report.status());
    if (round == 0) {
      EXPECT_GT(report->granules_recovered, 4u);
    }
    // The work is done; but a token tells ThreadSanitizer nothing.
    if (kUnderThreadSanitizer) {
      EXPECT_EQ(cpu().CtxSynchronize(), DriverResult::kSuccess);
    }
    ExpectAllIntact();
  }
  const PoolStats stats = pool().GetStats();
  EXPECT_GE(stats.gate_closings, 2u);
  EXPECT_EQ(stats.device_waits, 0u);
  EXPECT_GE(stats.scope_tokens, 1u);
}

TEST_P(LaunchScopeTest, APassThatWaitsTooLongChangesNothing) {
  Fragment();
  HeldStream work(&cpu());
  pool().launch_gate()->Arm();
  {
    const LaunchScope scope(pool(), work.stream());
    ASSERT_EQ(work.Hold(), DriverResult::kSuccess);
    ASSERT_EQ(FillOnStream(&cpu(), survivors_[0], work.stream()),
              DriverResult::kSuccess);
  }
  const std::vector<uint64_t> before = Generations();
  EXPECT_THAT(pool().Compact(Gated(absl::Milliseconds(5))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(Generations(), before);
  EXPECT_EQ(pool().GetStats().gate_timeouts, 1u);
  // The gate is open again.
  { const LaunchScope scope(pool(), work.stream()); }
  work.Release();
  FIRN_EXPECT_OK(pool().Compact(Gated()).status());
  EXPECT_NE(Generations(), before);
  ExpectAllIntact();
}

TEST_P(LaunchScopeTest, APassIsRefusedInsideAScopeOfItsOwnThread) {
  const LaunchScope scope(pool(), nullptr);
  for (const CompactOptions& options : {CompactOptions(), Gated()}) {
    EXPECT_THAT(pool().Compact(options),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("LaunchScope")));
  }
}

TEST_P(LaunchScopeTest, AnAllocationInsideAScopeMovesNothing) {
  Fragment();
  const std::vector<uint64_t> before = Generations();
  // More than any hole between the survivors has, less than is free.
  constexpr uint64_t kManyBytes = 12 * kMiB;
  {
    const LaunchScope scope(pool(), nullptr);
    EXPECT_THAT(pool().Allocate(kManyBytes),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_EQ(Generations(), before);
  FIRN_EXPECT_OK(pool().Allocate(kManyBytes).status());
  EXPECT_NE(Generations(), before);
  ExpectAllIntact();
}

TEST_P(LaunchScopeTest, AFailingAllocationClosesTheGateBeforeItMoves) {
  Fragment();
  HeldStream work(&cpu());
  {
    const LaunchScope scope(pool(), work.stream());
    ASSERT_EQ(work.Hold(), DriverResult::kSuccess);
    survivors_[0].seed = 4711;
    ASSERT_EQ(FillOnStream(&cpu(), survivors_[0], work.stream()),
              DriverResult::kSuccess);
  }
  std::thread releaser([&work] {
    absl::SleepFor(absl::Milliseconds(20));
    work.Release();
  });
  const uint64_t closings = pool().GetStats().gate_closings;
  const absl::Status allocated = pool().Allocate(12 * kMiB).status();
  releaser.join();
  FIRN_EXPECT_OK(allocated);
  EXPECT_EQ(pool().GetStats().gate_closings, closings + 1);
  ExpectAllIntact();
}

TEST_P(LaunchScopeTest, WorkOnAStreamThatTheScopeDoesNotNameIsAwaited) {
  Fragment();
  HeldStream work(&cpu());
  {
    const LaunchScope scope(pool());
    ASSERT_EQ(work.Hold(), DriverResult::kSuccess);
    survivors_[1].seed = 42;
    ASSERT_EQ(FillOnStream(&cpu(), survivors_[1], work.stream()),
              DriverResult::kSuccess);
  }
  EXPECT_THAT(pool().Compact(Gated(absl::Milliseconds(5))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  work.Release();
  FIRN_EXPECT_OK(pool().Compact(Gated()).status());
  ExpectAllIntact();
}

// Kernels write patterns and check them in turn, through raw pointers, while
// passes move the memory beneath.
TEST_P(LaunchScopeTest, ThreadsGoOnLaunchingWhilePassesMoveTheirMemory) {
  Fragment();
  constexpr int kThreads = 4;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> damaged{0};
  std::atomic<uint64_t> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    StreamHandle stream = nullptr;
    ASSERT_EQ(cpu().StreamCreate(&stream, kStreamNonBlocking),
              DriverResult::kSuccess);
    threads.emplace_back([&, t, stream] {
      uint64_t seed = static_cast<uint64_t>(t) << 32;
      while (!stop.load()) {
        for (size_t i = static_cast<size_t>(t); i < survivors_.size();
             i += kThreads) {
          FilledBlock& block = survivors_[i];
          const FilledBlock old = block;
          block.seed = ++seed;
          const FilledBlock now = block;
          KernelRange range;
          range.address = reinterpret_cast<uintptr_t>(block.ptr);
          range.bytes = block.bytes;
          range.writes = true;
          const LaunchScope scope(pool(), stream);
          const DriverResult launched =
              cpu().LaunchKernel(stream, {range}, [old, now, &damaged] {
                if (!IsIntact(old)) ++damaged;
                Fill(now);
              });
          if (launched != DriverResult::kSuccess) ++refused;
        }
        // Passes wait for all of it: not more than a round at a time.
        if (cpu().StreamSynchronize(stream) != DriverResult::kSuccess) {
          ++refused;
        }
      }
      EXPECT_EQ(cpu().StreamSynchronize(stream), DriverResult::kSuccess);
    });
  }
  uint64_t moves = 0;
  for (int pass = 0; pass < 12; ++pass) {
    const absl::StatusOr<CompactionReport> report = pool().Compact(Gated());
    FIRN_ASSERT_OK(report.status());
    moves += report->moves;
    // Something to move for the next one.
    std::vector<void*> blocks;
    for (int i = 0; i < 24; ++i) {
      const absl::StatusOr<void*> block = pool().Allocate(kBlockBytes);
      if (block.ok()) blocks.push_back(*block);
    }
    for (void* block : blocks) FIRN_EXPECT_OK(pool().Free(block));
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(moves, 0u);
  EXPECT_EQ(damaged.load(), 0u);
  EXPECT_EQ(refused.load(), 0u);
  ExpectAllIntact();
}

TEST_P(LaunchScopeTest, FreesThatWaitForOtherStreamsHoldUpNoGatedPass) {
  if (GetParam() == CpuSync::kDraining) {
    GTEST_SKIP() << "unmapping waits for all work, also for what is held here";
  }
  Fragment();
  HeldStream other(&cpu());
  { const LaunchScope scope(pool(), nullptr); }
  // Waits for what was freed before, now that scopes are in use.
  FIRN_ASSERT_OK_AND_ASSIGN(void* freed, pool().Allocate(kBlockBytes));
  ASSERT_EQ(other.Hold(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(pool().Free(freed, other.stream()));
  FIRN_ASSERT_OK(pool().Compact(Gated()).status());
  EXPECT_EQ(pool().GetStats().pending_free_bytes, kBlockBytes);
  other.Release();
  ExpectAllIntact();
}

// A second stream would have the pool wait for what was freed before.
TEST_P(LaunchScopeTest, ASecondStreamInsideAScopeBreaksNoCapture) {
  HeldStream first(&cpu());
  StreamHandle second = nullptr;
  ASSERT_EQ(cpu().StreamCreate(&second, kStreamNonBlocking),
            DriverResult::kSuccess);
  AllocateOptions on_first;
  on_first.stream = first.stream();
  FIRN_ASSERT_OK_AND_ASSIGN(void* block, pool().Allocate(kMiB, on_first));
  FIRN_ASSERT_OK_AND_ASSIGN(void* kept, pool().Allocate(kMiB, on_first));
  ASSERT_EQ(first.Hold(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(pool().Free(block, first.stream()));
  {
    const LaunchScope scope(pool(), second);
    ASSERT_EQ(cpu().StreamBeginCapture(second, CaptureMode::kThreadLocal),
              DriverResult::kSuccess);
    AllocateOptions on_second;
    on_second.stream = second;
    EXPECT_THAT(pool().Allocate(kMiB, on_second),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr("LaunchScope")));
    GraphHandle graph = nullptr;
    EXPECT_EQ(cpu().StreamEndCapture(second, &graph), DriverResult::kSuccess);
    EXPECT_EQ(cpu().GraphDestroy(graph), DriverResult::kSuccess);
    // A free is taken all the same, and waits for its own stream.
    FIRN_EXPECT_OK(pool().Free(kept, second));
  }
  first.Release();
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(LaunchScopeTest, WhatIsFreedOnAStreamOfAnotherContextIsWaitedFor) {
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CpuDriver> context,
                            cpu().CreateContext());
  HeldStream work(context.get());
  AllocateOptions options;
  options.stream = work.stream();
  FIRN_ASSERT_OK_AND_ASSIGN(void* block, pool().Allocate(4 * kMiB, options));
  FilledBlock filled;
  filled.ptr = block;
  filled.bytes = 4 * kMiB;
  ASSERT_EQ(work.Hold(), DriverResult::kSuccess);
  ASSERT_EQ(FillOnStream(context.get(), filled, work.stream()),
            DriverResult::kSuccess);
  FIRN_ASSERT_OK(pool().Free(block, work.stream()));
  EXPECT_EQ(pool().GetStats().pending_free_bytes, 4 * kMiB);
  FIRN_EXPECT_OK(pool().Trim().status());
  EXPECT_GE(pool().GetStats().held_bytes, 4 * kMiB);
  work.Release();
  ASSERT_EQ(work.Wait(), DriverResult::kSuccess);
  FIRN_EXPECT_OK(pool().Trim().status());
  EXPECT_EQ(pool().GetStats().held_bytes, 0u);
  EXPECT_EQ(cpu().loss(), "");
}

TEST_P(LaunchScopeTest, ADryRunNeedsNoGate) {
  Fragment();
  HeldStream work(&cpu());
  ASSERT_EQ(work.Hold(), DriverResult::kSuccess);
  { const LaunchScope scope(pool(), work.stream()); }
  const uint64_t closings = pool().GetStats().gate_closings;
  CompactOptions options = Gated(absl::ZeroDuration());
  options.dry_run = true;
  FIRN_EXPECT_OK(pool().Compact(options).status());
  EXPECT_EQ(pool().GetStats().gate_closings, closings);
}

INSTANTIATE_TEST_SUITE_P(Extremes, LaunchScopeTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

// Two devices that can access each other's memory, and a pool on the first.
class PoolWithPeerTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    CpuDriverOptions options;
    options.device_count = 2;
    options.device_bytes = 64 * kMiB;
    options.sync = GetParam();
    auto devices = CpuDriver::CreateDevices(options);
    FIRN_ASSERT_OK(devices.status());
    own_ = std::move((*devices)[0]);
    peer_ = std::move((*devices)[1]);
  }

  absl::StatusOr<std::unique_ptr<Pool>> MakePool() {
    PoolOptions options;
    options.driver = own_;
    options.peers = {peer_};
    options.capacity_bytes = 16 * kMiB;
    return Pool::Create(options);
  }

  std::shared_ptr<CpuDriver> own_;
  std::shared_ptr<CpuDriver> peer_;
};

TEST_P(PoolWithPeerTest, ThePeersWorkIsAwaitedAndItsAccessMovesWithTheMemory) {
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Pool> pool, MakePool());
  std::vector<FilledBlock> survivors;
  std::vector<void*> casualties;
  for (uint64_t i = 0; i < 48; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool->Allocate(kBlockBytes));
    FilledBlock block;
    block.ptr = ptr;
    block.bytes = kBlockBytes;
    block.seed = i;
    if (i % 8 == 0) {
      Fill(block);
      survivors.push_back(block);
    } else {
      casualties.push_back(ptr);
    }
  }
  for (void* casualty : casualties) FIRN_ASSERT_OK(pool->Free(casualty));

  HeldStream work(peer_.get());
  for (int round = 0; round < 2; ++round) {
    {
      const LaunchScope scope(*pool, work.stream());
      ASSERT_EQ(work.Hold(), DriverResult::kSuccess);
      for (FilledBlock& block : survivors) {
        block.seed += 100;
        ASSERT_EQ(FillOnStream(peer_.get(), block, work.stream()),
                  DriverResult::kSuccess);
      }
    }
    EXPECT_THAT(pool->Compact(Gated(absl::Milliseconds(5))),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    work.Release();
    FIRN_EXPECT_OK(pool->Compact(Gated()).status());
    // The work is done; but a token tells ThreadSanitizer nothing.
    if (kUnderThreadSanitizer) {
      EXPECT_EQ(peer_->CtxSynchronize(), DriverResult::kSuccess);
    }
    EXPECT_EQ(CountDamaged(survivors), 0u);
  }
  EXPECT_GT(pool->GetStats().granules_moved, 0u);
  EXPECT_EQ(peer_->loss(), "");
  EXPECT_EQ(own_->loss(), "");
  FIRN_EXPECT_OK(pool->CheckInvariants());
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolWithPeerTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST(PoolPeersTest, DevicesWithoutPeerAccessAreRefused) {
  CpuDriverOptions options;
  options.storage = CpuStorage::kGhost;
  options.device_count = 2;
  options.peer_access = false;
  auto devices = CpuDriver::CreateDevices(options);
  FIRN_ASSERT_OK(devices.status());
  PoolOptions pool_options;
  pool_options.driver = std::move((*devices)[0]);
  pool_options.peers = {std::move((*devices)[1])};
  EXPECT_THAT(Pool::Create(pool_options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("peers: device 1 cannot access")));
}

TEST(PoolKeeperTest, PreparedMemoryIsThereBeforeItIsAskedFor) {
  CpuDriverOptions driver_options;
  driver_options.storage = CpuStorage::kGhost;
  driver_options.device_bytes = 64 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(std::shared_ptr<Driver> driver,
                            CpuDriver::Create(driver_options));
  PoolOptions options;
  options.driver = driver;
  options.capacity_bytes = 32 * kMiB;
  options.prepared_bytes = 8 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Pool> pool, Pool::Create(options));
  const auto await = [&pool](uint64_t held_bytes) {
    for (int i = 0; i < 5000; ++i) {
      if (pool->GetStats().held_bytes == held_bytes) return true;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return false;
  };
  EXPECT_TRUE(await(8 * kMiB));
  FIRN_ASSERT_OK(pool->Allocate(6 * kMiB).status());
  EXPECT_TRUE(await(14 * kMiB));
  FIRN_EXPECT_OK(pool->CheckInvariants());
}

}  // namespace
}  // namespace firn

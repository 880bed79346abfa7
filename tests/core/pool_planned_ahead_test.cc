// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Gated passes that are to hold up others for a bounded time plan before the
// gate closes: whatever changes between the plan and the moves.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pin.h"
#include "firn/core/pool.h"
#include "firn/vmm/launch_gate.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmented_pool_scene.h"
#include "tests/support/held_stream.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stream_capture.h"

namespace firn::testing {
namespace {

constexpr uint64_t kCapacityBytes = 24 * kMiB;

class PoolPlannedAheadTest : public FragmentedPoolScene {
 protected:
  PoolPlannedAheadTest() : FragmentedPoolScene(kCapacityBytes) {}
  void SetUp() override {
    MakePool();
    // The gate is in use, and so are the blocks.
    const LaunchScope scope(pool(), nullptr);
  }

  static CompactOptions Bounded() {
    CompactOptions options;
    options.level = CompactionLevel::kLaunchScopes;
    options.max_wait = absl::Seconds(60);
    options.max_pause = absl::Seconds(60);
    return options;
  }

  // A pass that finds, when its gate has closed, what `change` has changed
  // since it was planned.
  CompactionReport PassWith(const std::function<void()>& change) {
    absl::StatusOr<CompactionReport> report = CompactionReport();
    std::optional<LaunchScope> scope(std::in_place, pool(), nullptr);
    std::thread pass([&] { report = pool().Compact(Bounded()); });
    // It plans, and then waits for the scope.
    while (pool().launch_gate()->is_open()) {
      absl::SleepFor(absl::Microseconds(100));
    }
    // Not inside the scope, and so it may wait for the device.
    std::thread(change).join();
    scope.reset();
    pass.join();
    FIRN_EXPECT_OK(report.status());
    return report.value_or(CompactionReport());
  }
};

TEST_P(PoolPlannedAheadTest, WhatWasPlannedIsMoved) {
  CompactOptions dry_run = Bounded();
  dry_run.dry_run = true;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport planned,
                            pool().Compact(dry_run));
  ASSERT_GT(planned.granules_recovered, 4u);
  EXPECT_GT(planned.planned_us, 40.0 * static_cast<double>(planned.moves));
  const CompactionReport report = PassWith([] {});
  EXPECT_EQ(report.granules_recovered, planned.granules_recovered);
  EXPECT_EQ(report.moves, planned.moves);
  EXPECT_EQ(report.rejected_sources, planned.rejected_sources);
  EXPECT_EQ(report.lower_bound_granules, planned.lower_bound_granules);
  EXPECT_GT(report.pause, absl::ZeroDuration());
  EXPECT_EQ(report.granules_after * 2 * kMiB, pool().GetStats().used_bytes);
}

TEST_P(PoolPlannedAheadTest, WhatWasFreedMeanwhileDoesNotMove) {
  CompactOptions dry_run = Bounded();
  dry_run.dry_run = true;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport planned,
                            pool().Compact(dry_run));
  const CompactionReport report = PassWith([this] {
    std::vector<FilledBlock> kept;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (i % 2 == 0) {
        kept.push_back(blocks_[i]);
      } else {
        FIRN_EXPECT_OK(pool().Free(blocks_[i].ptr));
      }
    }
    blocks_ = kept;
  });
  EXPECT_GT(report.granules_recovered, 0u);
  EXPECT_LT(report.bytes_copied, planned.bytes_copied * 3 / 4);
}

TEST_P(PoolPlannedAheadTest, AGranuleThatGotANewBlockStays) {
  const CompactionReport report = PassWith([this] {
    // They go where there is room: into sources and hosts.
    for (uint64_t seed = 1000; seed < 1150; ++seed) {
      const absl::StatusOr<void*> ptr = pool().Allocate(kBlockBytes);
      FIRN_ASSERT_OK(ptr.status());
      blocks_.push_back({*ptr, kBlockBytes, seed});
      Fill(blocks_.back());
    }
  });
  EXPECT_GT(report.rejected_sources, 0u);
}

TEST_P(PoolPlannedAheadTest, WhatWasPinnedMeanwhileStays) {
  std::vector<Pin> pins;
  std::vector<uint64_t> generations;
  const CompactionReport report = PassWith([&] {
    for (const FilledBlock& block : blocks_) {
      absl::StatusOr<Pin> pin = pool().PinBlock(block.ptr, "a test");
      FIRN_ASSERT_OK(pin.status());
      pins.push_back(*std::move(pin));
      generations.push_back(pool().Generation(block.ptr).value_or(0));
    }
  });
  EXPECT_EQ(report.moves, 0u);
  EXPECT_GT(report.rejected_sources, 0u);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    EXPECT_EQ(pool().Generation(blocks_[i].ptr).value_or(0), generations[i]);
  }
}

TEST_P(PoolPlannedAheadTest, GranulesThatWentToADomainAreLeftAlone) {
  DomainOptions options;
  options.name = "tenant";
  FIRN_ASSERT_OK_AND_ASSIGN(Domain domain, pool().CreateDomain(options));
  AllocateOptions in_domain;
  in_domain.domain = domain.id();
  const CompactionReport report = PassWith([&] {
    for (const FilledBlock& block : blocks_) {
      FIRN_EXPECT_OK(pool().Free(block.ptr));
    }
    blocks_.clear();
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const absl::StatusOr<void*> ptr = pool().Allocate(kBlockBytes, in_domain);
      if (!ptr.ok()) break;
      blocks_.push_back({*ptr, kBlockBytes, seed});
      Fill(blocks_.back());
    }
  });
  EXPECT_EQ(report.moves, 0u);
  EXPECT_EQ(CountDamaged(blocks_), 0u);
  for (const FilledBlock& block : blocks_) {
    FIRN_EXPECT_OK(pool().Free(block.ptr));
  }
  blocks_.clear();
}

TEST_P(PoolPlannedAheadTest, BudgetsHoldForWhatWasPlanned) {
  CompactOptions options = Bounded();
  options.wanted_granules = 1;
  FIRN_ASSERT_OK_AND_ASSIGN(CompactionReport report, pool().Compact(options));
  EXPECT_EQ(report.granules_recovered, 1u);
  EXPECT_FALSE(report.budget_exhausted);
  options.wanted_granules = 0;
  options.max_bytes = 8 * kBlockBytes;
  FIRN_ASSERT_OK_AND_ASSIGN(report, pool().Compact(options));
  EXPECT_LE(report.bytes_copied, 8 * kBlockBytes);
  EXPECT_TRUE(report.budget_exhausted);
  options.max_bytes = 0;
  options.max_moves = 3;
  FIRN_ASSERT_OK_AND_ASSIGN(report, pool().Compact(options));
  EXPECT_LE(report.moves, 3u);
}

TEST_P(PoolPlannedAheadTest, PassesOfSeveralThreadsDoNotGetInEachOthersWay) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      for (int pass = 0; pass < 5; ++pass) {
        FIRN_EXPECT_OK(pool().Compact(Bounded()).status());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const PoolStats stats = pool().GetStats();
  EXPECT_GT(stats.granules_recovered, 4u);
  EXPECT_EQ(stats.compaction_passes, 5u * kThreads);
}

// A ghost device has events for tokens, and asking for one breaks a global
// capture of any thread, unless the thread that asks is in the relaxed mode: as
// TokenEvents sees to.
TEST(PoolPlannedAheadCaptureTest, PlanningBreaksNoCapture) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(kCapacityBytes));
  Pool& pool = on_cpu->pool();
  HeldStream work(&on_cpu->cpu());
  StreamCapture capture(&on_cpu->cpu());
  FIRN_ASSERT_OK_AND_ASSIGN(void* block, pool.Allocate(4 * kMiB));
  ASSERT_EQ(work.Hold(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(pool.Free(block, work.stream()));
  ASSERT_GT(pool.GetStats().pending_free_bytes, 0u);
  {
    const LaunchScope scope(pool, capture.stream());
    ASSERT_EQ(capture.Begin(CaptureMode::kGlobal), DriverResult::kSuccess);
    std::thread pass([&pool] {
      CompactOptions options;
      options.level = CompactionLevel::kLaunchScopes;
      options.max_wait = absl::Milliseconds(5);
      options.max_pause = absl::Seconds(1);
      EXPECT_THAT(pool.Compact(options),
                  StatusIs(absl::StatusCode::kDeadlineExceeded));
    });
    pass.join();
    EXPECT_EQ(capture.End(), DriverResult::kSuccess);
  }
  work.Release();
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolPlannedAheadTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is declared read-only is copied while it is read, and remapped while
// nobody can be launching.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/pool_idle_scene.h"
#include "tests/core/pool_pass_scene.h"
#include "tests/support/held_stream.h"
#include "tests/support/sanitizers.h"
#include "tests/support/side_thread.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(20);

class PoolReadOnlyTest : public PoolIdleScene {
 protected:
  // A pool without scopes has nobody who reads in them.
  void OpenAScope() { const LaunchScope scope(pool(), nullptr); }
  void MarkAllReadOnly() {
    for (const FilledBlock& block : blocks_) {
      FIRN_EXPECT_OK(pool().MarkReadOnly(block.ptr, nullptr));
    }
    // The tokens that tell when it has been written.
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
  }
  CompactionReport RunPass() {
    const absl::StatusOr<CompactionReport> report = pool().Compact(IdleOnly());
    FIRN_EXPECT_OK(report.status());
    return report.value_or(CompactionReport());
  }
};

INSTANTIATE_TEST_SUITE_P(Extremes, PoolReadOnlyTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(PoolReadOnlyTest, ItMovesAndTheOthersStay) {
  Fragment();
  OpenAScope();
  const std::vector<uint64_t> before = Generations();
  const size_t half = blocks_.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    FIRN_ASSERT_OK(pool().MarkReadOnly(blocks_[i].ptr, nullptr));
  }
  EXPECT_EQ(pool().GetStats().read_only_blocks, half);
  EXPECT_EQ(pool().GetStats().read_only_bytes, half * kBlockBytes);
  EXPECT_EQ(pool().GetStats().idle_blocks, 0u);
  const CompactionReport report = RunPass();
  EXPECT_GT(report.granules_recovered, 0u) << report.ToString();
  EXPECT_GT(report.busy_granules, 0u);
  EXPECT_GT(report.pause, absl::ZeroDuration());
  EXPECT_LT(report.pause, report.duration);
  const std::vector<uint64_t> after = Generations();
  for (size_t i = half; i < blocks_.size(); ++i) {
    EXPECT_EQ(after[i], before[i]) << "block " << i << " may be written";
  }
}

TEST_P(PoolReadOnlyTest, TogetherWithWhatIsIdleItIsAsGoodAsAPassOfLevelZero) {
  Fragment();
  OpenAScope();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    FIRN_ASSERT_OK(i % 2 == 0 ? pool().MarkReadOnly(blocks_[i].ptr, nullptr)
                              : pool().MarkIdle(blocks_[i].ptr, nullptr));
  }
  const CompactionReport report = RunPass();
  EXPECT_LE(static_cast<double>(report.granules_after),
            1.1 * static_cast<double>(report.lower_bound_granules))
      << report.ToString();
  EXPECT_EQ(report.busy_granules, 0u);
}

TEST_P(PoolReadOnlyTest, WithoutScopesItStays) {
  Fragment();
  MarkAllReadOnly();
  const CompactionReport report = RunPass();
  EXPECT_EQ(report.moves, 0u);
  EXPECT_EQ(report.busy_granules, report.granules_before);
}

TEST_P(PoolReadOnlyTest, ForWhatIsIdleTheGateStaysOpen) {
  Fragment();
  OpenAScope();
  MarkAllReadOnly();
  MarkAllIdle();
  EXPECT_EQ(pool().GetStats().read_only_blocks, 0u);
  EXPECT_EQ(pool().GetStats().read_only_bytes, 0u);
  const CompactionReport report = RunPass();
  EXPECT_GT(report.moves, 0u);
  EXPECT_EQ(report.pause, absl::ZeroDuration());
  EXPECT_EQ(pool().GetStats().gate_closings, 0u);
}

TEST_P(PoolReadOnlyTest, ItIsCopiedOnlyOnceItHasBeenWritten) {
  Fragment();
  OpenAScope();
  HeldStream held(cpu_.get());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  for (const FilledBlock& block : blocks_) {
    FIRN_ASSERT_OK(pool().MarkReadOnly(block.ptr, held.stream()));
  }
  CompactOptions dry_run = IdleOnly();
  dry_run.dry_run = true;
  FIRN_ASSERT_OK_AND_ASSIGN(CompactionReport report, pool().Compact(dry_run));
  EXPECT_EQ(report.moves, 0u);
  held.Release();
  ASSERT_EQ(held.Wait(), DriverResult::kSuccess);
  FIRN_ASSERT_OK_AND_ASSIGN(report, pool().Compact(dry_run));
  EXPECT_GT(report.moves, 0u);
}

TEST_P(PoolReadOnlyTest, OneMoreReaderLeavesItReadOnlyAndAWriterDoesNot) {
  Fragment();
  OpenAScope();
  MarkAllReadOnly();
  StreamHandle stream = nullptr;
  ASSERT_EQ(cpu_->StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  for (const FilledBlock& block : blocks_) {
    FIRN_ASSERT_OK(pool().RecordUse(block.ptr, stream));
  }
  EXPECT_EQ(pool().GetStats().read_only_blocks, blocks_.size());
  for (const FilledBlock& block : blocks_) {
    FIRN_ASSERT_OK(pool().MarkActive(block.ptr));
  }
  EXPECT_EQ(pool().GetStats().read_only_blocks, 0u);
  EXPECT_EQ(RunPass().moves, 0u);
  MarkAllReadOnly();
  EXPECT_GT(RunPass().moves, 0u);
}

TEST_P(PoolReadOnlyTest, FreedItWaitsForItsReader) {
  Fragment();
  OpenAScope();
  MarkAllReadOnly();
  // From here on what is freed gets tokens.
  RunPass();
  HeldStream held(cpu_.get());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(pool().Free(blocks_.back().ptr, held.stream()));
  blocks_.pop_back();
  EXPECT_GT(pool().GetStats().pending_free_bytes, 0u);
  EXPECT_EQ(pool().GetStats().read_only_blocks, blocks_.size());
  held.Release();
}

TEST_P(PoolReadOnlyTest, BadInputIsRefusedAndChangesNothing) {
  Fragment();
  char* const inside = static_cast<char*>(blocks_[0].ptr) + 512;
  EXPECT_THAT(
      pool().MarkReadOnly(inside, nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no live block")));
  int no_stream = 0;
  EXPECT_THAT(pool().MarkReadOnly(blocks_[0].ptr,
                                  reinterpret_cast<StreamHandle>(&no_stream)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(pool().GetStats().read_only_blocks, 0u);
}

TEST_P(PoolReadOnlyTest, WhatStaysReadableTooLongEndsThePassWithNothingMoved) {
  Fragment();
  OpenAScope();
  MarkAllReadOnly();
  const std::vector<uint64_t> before = Generations();
  CompactOptions options = IdleOnly();
  options.max_wait = absl::Milliseconds(20);
  std::atomic<bool> is_inside{false};
  std::atomic<bool> is_over{false};
  SideThread reader([&] {
    const LaunchScope scope(pool(), nullptr);
    is_inside.store(true);
    while (!is_over.load()) absl::SleepFor(absl::Microseconds(100));
  });
  while (!is_inside.load()) absl::SleepFor(absl::Microseconds(100));
  EXPECT_THAT(pool().Compact(options).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(Generations(), before);
  EXPECT_EQ(pool().GetStats().gate_timeouts, 1u);
  is_over.store(true);
  ASSERT_TRUE(reader.IsDoneWithin(kSoon));
  ExpectSound();
  EXPECT_GT(RunPass().moves, 0u);
}

TEST_P(PoolReadOnlyTest, VetoesCountThoughTheGateDoesNotClose) {
  Fragment();
  OpenAScope();
  MarkAllReadOnly();
  MoveHook hook;
  uint64_t vetoes = 0;
  hook.before_move = [&vetoes](absl::Span<const MovingBlock>) {
    ++vetoes;
    return absl::InternalError("not now");
  };
  FIRN_ASSERT_OK_AND_ASSIGN(const MoveHookRegistration registration,
                            pool().AddMoveHook(std::move(hook)));
  CompactOptions options = IdleOnly();
  options.max_wait = absl::ZeroDuration();
  options.max_pause = absl::Nanoseconds(1);
  std::optional<LaunchGate::Closure> closure;
  absl::StatusOr<LaunchGate::Closure> closed =
      pool().launch_gate()->Close(kSoon);
  FIRN_ASSERT_OK(closed.status());
  closure.emplace(*std::move(closed));
  EXPECT_THAT(pool().Compact(options).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  closure.reset();
  EXPECT_GT(vetoes, 0u);
  EXPECT_EQ(pool().GetStats().vetoed_sources, vetoes);
}

TEST_P(PoolReadOnlyTest, WhatMayHaveBeenWrittenMeanwhileStays) {
  for (const bool is_declared_again : {false, true}) {
    for (uint64_t n = 0; n < 3; ++n) {
      SCOPED_TRACE(absl::StrCat(n, is_declared_again ? " again" : ""));
      for (const FilledBlock& block : blocks_) {
        FIRN_ASSERT_OK(pool().Free(block.ptr));
      }
      blocks_.clear();
      MakePool(kMiB);
      Fragment();
      OpenAScope();
      MarkAllReadOnly();
      const std::vector<uint64_t> before = Generations();
      steps_->Before(n, [&](DriverCall) {
        for (FilledBlock& block : blocks_) {
          FIRN_ASSERT_OK(pool().MarkActive(block.ptr));
          // A copy that was cancelled may still be reading, for nothing: the
          // sanitizer would call that a race.
          if (!kUnderThreadSanitizer) {
            block.seed += 1000;
            Fill(block);
          }
          if (!is_declared_again) continue;
          FIRN_ASSERT_OK(pool().MarkReadOnly(block.ptr, nullptr));
        }
      });
      const CompactionReport report = RunPass();
      EXPECT_TRUE(steps_->done());
      EXPECT_GT(report.rejected_sources, 0u);
      ExpectSound();
      // Later batches of the pass find it read-only again.
      if (!is_declared_again) {
        EXPECT_EQ(Generations(), before);
      }
    }
  }
}

TEST_P(PoolReadOnlyTest, IdleMemoryThatIsReadAgainMeanwhileStays) {
  Fragment();
  OpenAScope();
  MarkAllIdle();
  const std::vector<uint64_t> before = Generations();
  // The gate is not about to close: nothing was read when the batch began.
  steps_->Before(0, [&](DriverCall) { MarkAllReadOnly(); });
  CompactOptions options = IdleOnly();
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(options));
  EXPECT_TRUE(steps_->done());
  EXPECT_EQ(report.moves, 0u);
  EXPECT_EQ(pool().GetStats().gate_closings, 0u);
  EXPECT_EQ(Generations(), before);
}

// A capture begins and ends in a scope, and so does its pool.
TEST_P(PoolReadOnlyTest, AGraphPrivatePoolOpensInTheScopeThatThePassWaitsFor) {
  // The first one may have to wait for the device.
  FIRN_ASSERT_OK(pool().BeginPool(GraphPoolId{1}));
  FIRN_ASSERT_OK(pool().EndPool(GraphPoolId{1}));
  Fragment();
  // What has been freed gets tokens by now, and this thread keeps some of it.
  FIRN_ASSERT_OK(pool().ReleaseStream(nullptr));
  ASSERT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
  OpenAScope();
  MarkAllReadOnly();
  const std::vector<uint64_t> before = Generations();
  CompactOptions options = IdleOnly();
  options.max_wait = absl::Seconds(30);
  std::optional<SideThread> other;
  std::atomic<bool> is_inside{false};
  steps_->Before(0, [&](DriverCall) {
    other.emplace([&] {
      const LaunchScope scope(pool(), nullptr);
      is_inside.store(true);
      // The pass is at the gate by then.
      while (pool().launch_gate()->is_open()) {
        absl::SleepFor(absl::Microseconds(50));
      }
      FIRN_EXPECT_OK(pool().BeginPool(GraphPoolId{2}));
    });
    while (!is_inside.load()) absl::SleepFor(absl::Microseconds(50));
  });
  EXPECT_THAT(pool().Compact(options).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("graph-private pool is open")));
  ASSERT_TRUE(other.has_value() && other->IsDoneWithin(kSoon));
  EXPECT_EQ(Generations(), before);
  FIRN_ASSERT_OK(pool().EndPool(GraphPoolId{2}));
  EXPECT_GT(RunPass().moves, 0u);
  FIRN_ASSERT_OK(pool().ReleasePool(GraphPoolId{2}));
  FIRN_ASSERT_OK(pool().ReleasePool(GraphPoolId{1}));
}

// --- The gate, call by call ---

class PoolReadOnlyGateTest : public ::testing::TestWithParam<CpuSync> {};

INSTANTIATE_TEST_SUITE_P(Extremes, PoolReadOnlyGateTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(PoolReadOnlyGateTest, IsOpenWhileThePassCopiesAndClosedWhileItRemaps) {
  const PassSetting setting = {GetParam(), CompactionLevel::kDeclaredIdle,
                               /*is_read_only=*/true};
  uint64_t copies = 0;
  uint64_t remaps = 0;
  for (uint64_t n = 0;; ++n) {
    PoolPassScene scene(setting);
    LaunchGate& gate = *scene.pool().launch_gate();
    scene.steps().Before(n, [&](DriverCall next) {
      if (IsCopyStep(next)) {
        ++copies;
        EXPECT_TRUE(gate.is_open()) << DriverCallName(next);
      } else if (next == DriverCall::kMemMap) {
        ++remaps;
        EXPECT_FALSE(gate.is_open()) << DriverCallName(next);
      }
    });
    FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, scene.RunPass());
    EXPECT_GE(report.granules_recovered, 3u);
    // One for each batch.
    EXPECT_EQ(scene.pool().GetStats().gate_closings, report.granules_recovered);
    EXPECT_TRUE(gate.is_open());
    const bool reached = scene.steps().done();
    scene.steps().Cancel();
    if (HasFailure() || !reached) break;
  }
  EXPECT_GT(copies, 6u);
  EXPECT_GT(remaps, 6u);
}

// --- Threads ---

class PoolReadOnlyThreadsTest : public PoolReadOnlyTest {
 protected:
  // Reads all of the blocks again and again, each time inside a scope, on a
  // stream of its own. No kernel waits for any other.
  void Read(const std::vector<FilledBlock>& blocks,
            const std::atomic<bool>& stop, std::atomic<uint64_t>* damaged,
            std::atomic<uint64_t>* reads) {
    StreamHandle stream = nullptr;
    ASSERT_EQ(cpu_->StreamCreate(&stream, kStreamNonBlocking),
              DriverResult::kSuccess);
    while (!stop.load()) {
      for (const FilledBlock& block : blocks) {
        const LaunchScope scope(pool(), stream);
        KernelRange range;
        range.address = reinterpret_cast<uintptr_t>(block.ptr);
        range.bytes = block.bytes;
        const auto check = [&block, damaged, reads] {
          if (!IsIntact(block)) ++*damaged;
          ++*reads;
        };
        EXPECT_EQ(cpu_->LaunchKernel(stream, {range}, check),
                  DriverResult::kSuccess);
      }
      EXPECT_EQ(cpu_->StreamSynchronize(stream), DriverResult::kSuccess);
    }
    EXPECT_EQ(cpu_->StreamDestroy(stream), DriverResult::kSuccess);
  }
};

INSTANTIATE_TEST_SUITE_P(Extremes, PoolReadOnlyThreadsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(PoolReadOnlyThreadsTest, ReadersGoOnWhilePassesMoveWhatTheyRead) {
  MakePool(2 * kMiB);
  // Tokens order what the host does to the memory of others.
  Fragment(/*keep=*/3, /*bytes=*/2 * kKiB);
  std::vector<FilledBlock> read;
  std::vector<FilledBlock> freed;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    (i % 6 == 0 ? read : freed).push_back(blocks_[i]);
  }
  OpenAScope();
  for (const FilledBlock& block : read) {
    FIRN_ASSERT_OK(pool().MarkReadOnly(block.ptr, nullptr));
  }
  for (const FilledBlock& block : freed) {
    FIRN_ASSERT_OK(pool().MarkIdle(block.ptr, nullptr));
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> damaged{0};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] { Read(read, stop, &damaged, &reads); });
  }
  uint64_t moves = 0;
  // Each round leaves new holes.
  while (!freed.empty()) {
    for (int i = 0; i < 20 && !freed.empty(); ++i) {
      FIRN_EXPECT_OK(pool().Free(freed.back().ptr));
      freed.pop_back();
    }
    CompactOptions options = IdleOnly();
    options.max_wait = kSoon;
    const absl::StatusOr<CompactionReport> report = pool().Compact(options);
    FIRN_EXPECT_OK(report.status());
    if (report.ok()) moves += report->moves;
  }
  const uint64_t reads_so_far = reads.load();
  while (reads.load() < reads_so_far + read.size()) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  blocks_ = read;
  EXPECT_EQ(damaged.load(), 0u);
  EXPECT_GT(moves, 20u);
  EXPECT_GT(pool().GetStats().gate_closings, 1u);
}

}  // namespace
}  // namespace firn::testing

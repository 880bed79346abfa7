// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is declared idle moves, nothing else does, and all the rest goes on.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/pool_idle_scene.h"
#include "tests/support/held_stream.h"
#include "tests/support/sanitizers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::HeldStream;
using ::firn::testing::kMiB;
using ::firn::testing::kUnderThreadSanitizer;
using ::firn::testing::PoolIdleScene;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;
using ::testing::HasSubstr;

class PoolIdleTest : public PoolIdleScene {};

INSTANTIATE_TEST_SUITE_P(Extremes, PoolIdleTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(PoolIdleTest, NothingMovesThatIsNotDeclaredIdle) {
  Fragment();
  const std::vector<uint64_t> before = Generations();
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(IdleOnly()));
  EXPECT_EQ(report.moves, 0u);
  EXPECT_EQ(report.granules_recovered, 0u);
  EXPECT_EQ(report.busy_granules, report.granules_before);
  EXPECT_EQ(report.pinned_granules, 0u);
  EXPECT_EQ(Generations(), before);
}

TEST_P(PoolIdleTest, IdleBlocksMoveAndTheOthersStay) {
  Fragment();
  const std::vector<uint64_t> before = Generations();
  for (size_t i = 0; i < blocks_.size() / 2; ++i) {
    FIRN_ASSERT_OK(pool().MarkIdle(blocks_[i].ptr, nullptr));
  }
  EXPECT_EQ(pool().GetStats().idle_blocks, blocks_.size() / 2);
  EXPECT_EQ(pool().GetStats().idle_bytes, blocks_.size() / 2 * kBlockBytes);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(IdleOnly()));
  EXPECT_GT(report.granules_recovered, 0u) << report.ToString();
  EXPECT_GT(report.busy_granules, 0u);
  EXPECT_LT(report.granules_after, report.granules_before);
  const std::vector<uint64_t> after = Generations();
  uint64_t moved = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (after[i] == before[i]) continue;
    ++moved;
    EXPECT_LT(i, blocks_.size() / 2) << "block " << i << " was in use";
  }
  EXPECT_GT(moved, 0u);
  EXPECT_EQ(CountDamaged(blocks_), 0u);
}

TEST_P(PoolIdleTest, AllIdleIsAsGoodAsAPassOfLevelZero) {
  Fragment();
  MarkAllIdle();
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(IdleOnly()));
  EXPECT_LE(static_cast<double>(report.granules_after),
            1.1 * static_cast<double>(report.lower_bound_granules))
      << report.ToString();
  EXPECT_EQ(report.busy_granules, 0u);
}

// Until `held` is released nothing moves; then it does.
void ExpectMovesOnceReleased(Pool* pool, CpuDriver* cpu, HeldStream* held) {
  CompactOptions dry_run;
  dry_run.level = CompactionLevel::kDeclaredIdle;
  dry_run.dry_run = true;
  FIRN_ASSERT_OK_AND_ASSIGN(CompactionReport report, pool->Compact(dry_run));
  EXPECT_EQ(report.moves, 0u);
  held->Release();
  ASSERT_EQ(held->Wait(), DriverResult::kSuccess);
  ASSERT_EQ(cpu->CtxSynchronize(), DriverResult::kSuccess);
  FIRN_ASSERT_OK_AND_ASSIGN(report, pool->Compact(dry_run));
  EXPECT_GT(report.moves, 0u);
}

TEST_P(PoolIdleTest, ABlockIsIdleOnlyWhenItsStreamIsDone) {
  Fragment();
  HeldStream held(cpu_.get());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  for (const FilledBlock& block : blocks_) {
    FIRN_ASSERT_OK(pool().MarkIdle(block.ptr, held.stream()));
  }
  ExpectMovesOnceReleased(&pool(), cpu_.get(), &held);
}

TEST_P(PoolIdleTest, ItWaitsForRecordedUsesToo) {
  Fragment();
  // So that the pool need not wait for devices while a stream is held.
  FIRN_ASSERT_OK(pool().Compact(IdleOnly()).status());
  HeldStream held(cpu_.get());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  for (const FilledBlock& block : blocks_) {
    FIRN_ASSERT_OK(pool().RecordUse(block.ptr, held.stream()));
  }
  MarkAllIdle();
  ExpectMovesOnceReleased(&pool(), cpu_.get(), &held);
}

TEST_P(PoolIdleTest, ActiveAgainOrUsedAgainItStays) {
  Fragment();
  const std::vector<uint64_t> before = Generations();
  MarkAllIdle();
  StreamHandle stream = nullptr;
  ASSERT_EQ(cpu_->StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (i % 2 == 0) {
      FIRN_ASSERT_OK(pool().MarkActive(blocks_[i].ptr));
    } else {
      FIRN_ASSERT_OK(pool().RecordUse(blocks_[i].ptr, stream));
    }
  }
  EXPECT_EQ(pool().GetStats().idle_blocks, 0u);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(IdleOnly()));
  EXPECT_EQ(report.moves, 0u);
  EXPECT_EQ(Generations(), before);
}

TEST_P(PoolIdleTest, ItMovesWhileWorkOnTheRestIsInFlight) {
  // In draining mode unmapping waits for the work that is held up.
  if (GetParam() == CpuSync::kDraining) GTEST_SKIP() << "unmapping waits";
  Fragment();
  MarkAllIdle();
  FIRN_ASSERT_OK(pool().MarkActive(blocks_[0].ptr));
  // From here on the pool need not wait for devices.
  CompactOptions one = IdleOnly();
  one.wanted_granules = 1;
  FIRN_ASSERT_OK(pool().Compact(one).status());
  HeldStream held(cpu_.get());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  ASSERT_EQ(
      held.Touch(reinterpret_cast<uintptr_t>(blocks_[0].ptr), blocks_[0].bytes),
      DriverResult::kSuccess);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(IdleOnly()));
  EXPECT_GT(report.moves, 0u);
  held.Release();
  ASSERT_EQ(held.Wait(), DriverResult::kSuccess);
  Fill(blocks_[0]);
}

TEST_P(PoolIdleTest, PinnedBlocksStayThoughTheyAreIdle) {
  Fragment();
  MarkAllIdle();
  const std::vector<uint64_t> before = Generations();
  FIRN_ASSERT_OK_AND_ASSIGN(const Pin pin,
                            pool().PinBlock(blocks_[3].ptr, "a test"));
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(IdleOnly()));
  EXPECT_GT(report.moves, 0u);
  EXPECT_EQ(report.pinned_granules, 1u);
  EXPECT_EQ(Generations()[3], before[3]);
}

TEST_P(PoolIdleTest, ANonIdleGranuleTakesInWhatIsIdle) {
  Fragment();
  // One in every granule but the last few blocks' is in use.
  for (size_t i = 0; i + 4 < blocks_.size(); i += 1) {
    if (i % 8 != 0) continue;
    FIRN_ASSERT_OK(pool().MarkIdle(blocks_[i].ptr, nullptr));
    FIRN_ASSERT_OK(pool().MarkIdle(blocks_[i + 1].ptr, nullptr));
  }
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(IdleOnly()));
  EXPECT_EQ(report.granules_before - report.granules_after,
            report.granules_recovered);
}

TEST_P(PoolIdleTest, BadInputIsRefusedAndChangesNothing) {
  Fragment();
  EXPECT_THAT(pool().MarkIdle(nullptr, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
  char* const inside = static_cast<char*>(blocks_[0].ptr) + 512;
  EXPECT_THAT(
      pool().MarkIdle(inside, nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no live block")));
  EXPECT_THAT(
      pool().MarkActive(inside),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no live block")));
  int no_stream = 0;
  EXPECT_THAT(pool().MarkIdle(blocks_[0].ptr,
                              reinterpret_cast<StreamHandle>(&no_stream)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(pool().GetStats().idle_blocks, 0u);
}

TEST_P(PoolIdleTest, AnIdleBlockIsFreedAtOnce) {
  Fragment();
  MarkAllIdle();
  FIRN_ASSERT_OK(pool().Compact(IdleOnly()).status());
  HeldStream held(cpu_.get());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(pool().Free(blocks_.back().ptr, held.stream()));
  blocks_.pop_back();
  EXPECT_EQ(pool().GetStats().pending_free_bytes, 0u);
  held.Release();
  EXPECT_EQ(pool().GetStats().idle_blocks, blocks_.size());
}

TEST_P(PoolIdleTest, BatchesAreAsSmallAsMaxPauseWants) {
  Fragment();
  MarkAllIdle();
  CompactOptions options = IdleOnly();
  options.max_pause = absl::Nanoseconds(1);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(options));
  EXPECT_GT(report.granules_recovered, 1u) << report.ToString();
  // Each granule was a batch of its own, and each batch waits for its copies.
  EXPECT_GE(steps_->waits(), report.granules_recovered);
}

TEST_P(PoolIdleTest, APassNeedsNoMappingOfItsOwn) {
  // One for each granule.
  MakePool(4 * kMiB, 4 * kMiB / kGranuleBytes);
  Fragment();
  ASSERT_EQ(pool().GetStats().mapped_vgs, 4 * kMiB / kGranuleBytes);
  MarkAllIdle();
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(IdleOnly()));
  EXPECT_GT(report.moves, 0u);
}

// --- max_pause at level 1 ---

TEST_P(PoolIdleTest, AGatedPassEndsWhenItsPauseIsOver) {
  constexpr absl::Duration kMapTime = absl::Microseconds(500);
  Fragment();
  CompactOptions options;
  options.level = CompactionLevel::kLaunchScopes;
  options.dry_run = true;
  FIRN_ASSERT_OK_AND_ASSIGN(CompactionReport report, pool().Compact(options));
  const uint64_t all_moves = report.moves;
  ASSERT_GT(all_moves, 60u);

  options.dry_run = false;
  options.max_pause = 20 * kMapTime;
  steps_->SetMapTime(kMapTime);
  uint64_t moves = 0;
  // Each pass goes on where the one before has stopped.
  for (int passes = 0; moves < all_moves; ++passes) {
    ASSERT_LE(passes, 1000);
    FIRN_ASSERT_OK_AND_ASSIGN(report, pool().Compact(options));
    ASSERT_GT(report.moves, 0u);
    // One source has several moves.
    EXPECT_LE(report.moves, 24u);
    moves += report.moves;
    if (!report.budget_exhausted) break;
    ExpectSound();
  }
  EXPECT_GT(moves, 60u);
}

// --- While the pass copies, at each of its steps ---

class PoolIdleStepTest : public PoolIdleScene {
 protected:
  // Copies may still be reading what is written now, and are thrown away: a
  // race by design, which ThreadSanitizer would report.
  static void Write(FilledBlock* block) {
    if (kUnderThreadSanitizer) return;
    block->seed += 1000;
    Fill(*block);
  }
  void WriteAll() {
    for (FilledBlock& block : blocks_) Write(&block);
  }

  // Has `act` run before the n-th call of the copy, for every n, on a pool made
  // anew, and checks what is left.
  void AtEveryStep(const std::function<void()>& act,
                   const std::function<void(const CompactionReport&)>& check) {
    for (uint64_t n = 0;; ++n) {
      SCOPED_TRACE(::testing::Message() << "before call " << n);
      for (const FilledBlock& block : blocks_) {
        FIRN_ASSERT_OK(pool().Free(block.ptr));
      }
      blocks_.clear();
      MakePool(kMiB);
      Fragment();
      MarkAllIdle();
      steps_->Before(n, [&act](DriverCall) { act(); });
      FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                                pool().Compact(IdleOnly()));
      const bool done = steps_->done();
      steps_->Cancel();
      ExpectSound();
      if (done) check(report);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
      if (!done) {
        EXPECT_GT(n, 3u);
        return;
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Extremes, PoolIdleStepTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(PoolIdleStepTest, MarkActiveCancelsTheMove) {
  std::vector<uint64_t> before;
  AtEveryStep(
      [&] {
        before = Generations();
        for (const FilledBlock& block : blocks_) {
          FIRN_ASSERT_OK(pool().MarkActive(block.ptr));
        }
        // In use at once: the copy that is under way is thrown away.
        WriteAll();
      },
      [&](const CompactionReport& report) {
        EXPECT_EQ(report.moves, 0u);
        EXPECT_GT(report.rejected_sources, 0u);
        EXPECT_EQ(Generations(), before);
      });
}

TEST_P(PoolIdleStepTest, WhatWasUsedMeanwhileStaysThoughItIsIdleAgain) {
  AtEveryStep(
      [&] {
        for (FilledBlock& block : blocks_) {
          FIRN_ASSERT_OK(pool().MarkActive(block.ptr));
          Write(&block);
          FIRN_ASSERT_OK(pool().MarkIdle(block.ptr, nullptr));
        }
      },
      [&](const CompactionReport&) {});
}

// Between two batches others go on: what was free when the plan was made may
// be theirs by then.
TEST_P(PoolIdleStepTest, WhatWasAllocatedBetweenBatchesIsNotOverwritten) {
  Fragment();
  MarkAllIdle();
  CompactOptions options = IdleOnly();
  options.max_pause = absl::Nanoseconds(1);
  steps_->Before(0, [&](DriverCall) {
    for (uint64_t i = 0;; ++i) {
      const absl::StatusOr<void*> ptr = pool().Allocate(kBlockBytes);
      if (!ptr.ok()) break;
      blocks_.push_back({*ptr, kBlockBytes, 5000 + i});
      Fill(blocks_.back());
    }
  });
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(options));
  EXPECT_TRUE(steps_->done());
  EXPECT_GT(report.rejected_sources, 0u);
  ExpectSound();
}

TEST_P(PoolIdleStepTest, OneBlockInUseAgainKeepsItsGranuleAlone) {
  AtEveryStep(
      [&] { FIRN_ASSERT_OK(pool().MarkActive(blocks_.back().ptr)); },
      [&](const CompactionReport& report) { EXPECT_GT(report.moves, 0u); });
}

TEST_P(PoolIdleStepTest, AFreeIsAppliedAtTheFlip) {
  AtEveryStep(
      [&] {
        std::vector<FilledBlock> left;
        for (size_t i = 0; i < blocks_.size(); ++i) {
          if (i % 2 == 0) {
            left.push_back(blocks_[i]);
          } else {
            FIRN_ASSERT_OK(pool().Free(blocks_[i].ptr));
          }
        }
        blocks_ = left;
      },
      [&](const CompactionReport& report) {
        EXPECT_GT(report.granules_recovered, 0u);
      });
}

TEST_P(PoolIdleStepTest, AllMayBeFreed) {
  AtEveryStep(
      [&] {
        for (const FilledBlock& block : blocks_) {
          FIRN_ASSERT_OK(pool().Free(block.ptr));
        }
        blocks_.clear();
      },
      [&](const CompactionReport&) {
        EXPECT_EQ(pool().GetStats().live_bytes, 0u);
      });
}

TEST_P(PoolIdleStepTest, OthersAllocateAndNeverGetWhatIsBeingCopied) {
  AtEveryStep(
      [&] {
        // Until nothing fits: also beside what is being moved.
        for (uint64_t i = 0;; ++i) {
          const absl::StatusOr<void*> ptr = pool().Allocate(kBlockBytes);
          if (!ptr.ok()) break;
          blocks_.push_back({*ptr, kBlockBytes, 5000 + i});
          Fill(blocks_.back());
        }
      },
      [&](const CompactionReport&) {});
}

TEST_P(PoolIdleStepTest, PinningKeepsTheGranule) {
  std::vector<Pin> pins;
  std::vector<uint64_t> before;
  AtEveryStep(
      [&] {
        before = Generations();
        for (const FilledBlock& block : blocks_) {
          FIRN_ASSERT_OK_AND_ASSIGN(Pin pin,
                                    pool().PinBlock(block.ptr, "a test"));
          pins.push_back(std::move(pin));
        }
      },
      [&](const CompactionReport& report) {
        EXPECT_EQ(report.moves, 0u);
        EXPECT_EQ(Generations(), before);
        pins.clear();
      });
}

TEST_P(PoolIdleStepTest, TrimAndFiguresAreNoTrouble) {
  AtEveryStep(
      [&] {
        FIRN_EXPECT_OK(pool().Trim().status());
        FIRN_EXPECT_OK(pool().CheckInvariants());
        EXPECT_GT(pool().GetStats().used_bytes, 0u);
      },
      [&](const CompactionReport& report) { EXPECT_GT(report.moves, 0u); });
}

TEST_P(PoolIdleStepTest, HooksAreToldAndMayKeepTheirBlocks) {
  Fragment();
  MarkAllIdle();
  const std::vector<uint64_t> before = Generations();
  uint64_t asked = 0;
  uint64_t concluded = 0;
  MoveHook hook;
  hook.before_move = [&](absl::Span<const MovingBlock> blocks) {
    asked += blocks.size();
    return absl::InternalError("not now");
  };
  hook.after_move = [&](absl::Span<const MovingBlock> blocks) {
    concluded += blocks.size();
  };
  FIRN_ASSERT_OK_AND_ASSIGN(const MoveHookRegistration registration,
                            pool().AddMoveHook(std::move(hook)));
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(IdleOnly()));
  EXPECT_EQ(report.moves, 0u);
  EXPECT_GT(report.vetoed_sources, 0u);
  EXPECT_GT(asked, 0u);
  EXPECT_EQ(concluded, 0u);
  EXPECT_EQ(Generations(), before);
}

// --- Failures ---

class PoolIdleFailureTest : public PoolIdleScene {};

INSTANTIATE_TEST_SUITE_P(Extremes, PoolIdleFailureTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(PoolIdleFailureTest, EveryCallOfAPassMayFail) {
  uint64_t reported = 0;
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(::testing::Message() << "call " << n);
    for (const FilledBlock& block : blocks_) {
      FIRN_ASSERT_OK(pool().Free(block.ptr));
    }
    blocks_.clear();
    MakePool(kMiB);
    Fragment();
    MarkAllIdle();
    const PoolStats before = pool().GetStats();
    faults_->Reset();
    faults_->FailNth(n, DriverResult::kUnknown);
    const absl::Status status = pool().Compact(IdleOnly()).status();
    const bool reached = faults_->failures() > 0;
    faults_->Reset();
    ExpectSound();
    const PoolStats after = pool().GetStats();
    EXPECT_EQ(after.live_bytes, before.live_bytes);
    EXPECT_EQ(after.idle_blocks, before.idle_blocks);
    EXPECT_LE(after.used_bytes, before.used_bytes);
    if (!reached) {
      FIRN_EXPECT_OK(status);
      break;
    }
    if (!status.ok()) ++reported;
    FIRN_EXPECT_OK(pool().Compact(IdleOnly()).status());
    ExpectSound();
    if (HasFailure()) return;
  }
  EXPECT_GT(reported, 10u);
}

}  // namespace
}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is pinned stays where it is, whatever else moves.

#include "firn/core/pin.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGranule = 2 * kMiB;

class PinTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override { MakePool(64 * kMiB, /*move_on_failure=*/false); }

  void MakePool(uint64_t capacity_bytes, bool move_on_failure) {
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_, PoolOnCpu::Real(capacity_bytes, move_on_failure, GetParam()));
  }

  Pool& pool() { return on_cpu_->pool(); }

  // Fills the pool with blocks of `bytes`, and frees all but every `keep`-th.
  std::vector<FilledBlock> Fragment(uint64_t bytes, uint64_t keep) {
    std::vector<FilledBlock> kept;
    std::vector<void*> casualties;
    for (uint64_t i = 0;; ++i) {
      const absl::StatusOr<void*> ptr = pool().Allocate(bytes);
      if (!ptr.ok()) break;
      if (i % keep == 0) {
        kept.push_back({*ptr, bytes, i});
        Fill(kept.back());
      } else {
        casualties.push_back(*ptr);
      }
    }
    for (void* const ptr : casualties) FIRN_EXPECT_OK(pool().Free(ptr));
    return kept;
  }

  Pin MustPin(const void* ptr, absl::string_view reason = "a test") {
    absl::StatusOr<Pin> pin = pool().PinBlock(ptr, reason);
    FIRN_EXPECT_OK(pin.status());
    return pin.ok() ? *std::move(pin) : Pin();
  }

  uint64_t GenerationOf(const void* ptr) {
    const absl::StatusOr<uint64_t> generation = pool().Generation(ptr);
    FIRN_EXPECT_OK(generation.status());
    return generation.value_or(0);
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

TEST_P(PinTest, APassMovesEverythingButWhatIsPinned) {
  const std::vector<FilledBlock> blocks = Fragment(256 * kKiB, 8);
  ASSERT_GE(blocks.size(), 16u);
  std::vector<Pin> pins;
  std::vector<uint64_t> generations;
  for (size_t i = 0; i < blocks.size(); ++i) {
    generations.push_back(GenerationOf(blocks[i].ptr));
    if (i % 4 == 0) pins.push_back(MustPin(blocks[i].ptr));
  }
  PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.pinned_blocks, pins.size());
  EXPECT_EQ(stats.pinned_bytes, pins.size() * 256 * kKiB);
  EXPECT_GT(stats.pinned_granules, 0u);
  EXPECT_LE(stats.pinned_granules, pins.size());

  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GT(report.moves, 0u);
  EXPECT_EQ(report.pinned_granules, stats.pinned_granules);
  EXPECT_GE(report.lower_bound_granules, stats.pinned_granules);
  EXPECT_GE(report.granules_after, report.lower_bound_granules);
  for (size_t i = 0; i < blocks.size(); i += 4) {
    EXPECT_EQ(GenerationOf(blocks[i].ptr), generations[i]) << i;
  }
  EXPECT_EQ(CountDamaged(blocks), 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());

  // Without the pins the rest can go as well.
  pins.clear();
  EXPECT_EQ(pool().GetStats().pinned_granules, 0u);
  EXPECT_EQ(pool().GetStats().pinned_bytes, 0u);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport second, pool().Compact());
  EXPECT_EQ(second.pinned_granules, 0u);
  EXPECT_LT(second.granules_after, report.granules_after);
  EXPECT_EQ(CountDamaged(blocks), 0u);
}

TEST_P(PinTest, OthersMayMoveOntoTheGranuleOfAPinnedBlock) {
  const std::vector<FilledBlock> blocks = Fragment(256 * kKiB, 8);
  const Pin pin = MustPin(blocks[0].ptr);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  // One pin costs nothing: its granule takes in what others have.
  EXPECT_EQ(report.granules_after, report.lower_bound_granules);
  EXPECT_EQ(CountDamaged(blocks), 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(PinTest, APinnedBlockIsNotFreedUntilItsLastPinIsGone) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(4 * kKiB));
  Pin first = MustPin(ptr, "capture 12");
  Pin second = MustPin(ptr, "debugger");
  Pin third = MustPin(ptr, "capture 12");
  EXPECT_EQ(pool().GetStats().pinned_blocks, 1u);
  EXPECT_THAT(pool().Free(ptr),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is pinned: \"capture 12\", \"debugger\"")));
  first.Release();
  EXPECT_EQ(first.ptr(), nullptr);
  first.Release();
  EXPECT_THAT(pool().Free(ptr),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("\"debugger\", \"capture 12\"")));
  second.Release();
  third = Pin();
  EXPECT_EQ(pool().GetStats().live_allocations, 1u);
  EXPECT_EQ(pool().GetStats().refused_frees, 2u);
  FIRN_EXPECT_OK(pool().Free(ptr));
  EXPECT_EQ(pool().GetStats().live_allocations, 0u);
  EXPECT_EQ(pool().GetStats().pinned_blocks, 0u);
}

TEST_P(PinTest, AMessageNamesAFewReasonsAndCountsTheOthers) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(4 * kKiB));
  std::vector<Pin> pins;
  for (int i = 0; i < 7; ++i) {
    pins.push_back(MustPin(ptr, "reason " + std::to_string(i)));
  }
  EXPECT_THAT(pool().Free(ptr).message(), HasSubstr("\"reason 3\" and 3 more"));
}

TEST_P(PinTest, APinMovesWithItsOwner) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(4 * kKiB));
  FIRN_ASSERT_OK_AND_ASSIGN(void* other, pool().Allocate(4 * kKiB));
  Pin pin = MustPin(ptr);
  Pin owner(std::move(pin));
  EXPECT_EQ(owner.ptr(), ptr);
  EXPECT_EQ(pool().GetStats().pinned_blocks, 1u);
  owner = MustPin(other);  // gives the first one up
  EXPECT_EQ(owner.ptr(), other);
  EXPECT_EQ(pool().GetStats().pinned_blocks, 1u);
  FIRN_EXPECT_OK(pool().Free(ptr));
  EXPECT_FALSE(pool().Free(other).ok());
}

TEST_P(PinTest, BlocksThatThreadsCacheArePinnedAsWell) {
  // Freed and taken again in the cache, once it has grown.
  void* ptr = nullptr;
  for (int i = 0; i < 8; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(ptr, pool().Allocate(kKiB));
    if (i < 7) {
      FIRN_ASSERT_OK(pool().Free(ptr));
    }
  }
  Pin pin = MustPin(ptr);
  EXPECT_THAT(pool().Free(ptr),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  FIRN_ASSERT_OK_AND_ASSIGN(void* other, pool().Allocate(kKiB));
  EXPECT_NE(other, ptr);
  pin.Release();
  FIRN_EXPECT_OK(pool().Free(ptr));
  EXPECT_THAT(pool().Free(ptr), StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(PinTest, WhatIsNoLiveBlockOrHasNoReasonIsRefused) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(kKiB));
  EXPECT_THAT(
      pool().PinBlock(ptr, "").status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("reason")));
  int on_stack = 0;
  EXPECT_THAT(pool().PinBlock(&on_stack, "x").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ptr")));
  EXPECT_THAT(pool().PinBlock(static_cast<char*>(ptr) + 512, "x").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ptr")));
  FIRN_ASSERT_OK(pool().Free(ptr));
  EXPECT_THAT(pool().PinBlock(ptr, "x").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ptr")));
  EXPECT_EQ(pool().GetStats().pinned_blocks, 0u);
}

TEST_P(PinTest, APinMayOutliveItsPool) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(kKiB));
  Pin pin = MustPin(ptr);
  Pin second = MustPin(ptr);
  on_cpu_->DestroyPool();
  pin.Release();
  EXPECT_EQ(second.ptr(), ptr);  // and goes at the end
}

TEST_P(PinTest, OfALargeBlockTheRemainderIsHeld) {
  std::vector<FilledBlock> blocks;
  std::vector<Pin> pins;
  // Remainders of a third of a granule, so that two of them share one.
  for (uint64_t i = 0; i < 8; ++i) {
    const uint64_t bytes = 2 * kGranule + kGranule / 3;
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(bytes));
    blocks.push_back({ptr, bytes, i});
    Fill(blocks.back());
  }
  // Whole granules only.
  FIRN_ASSERT_OK_AND_ASSIGN(void* whole, pool().Allocate(2 * kGranule));
  for (size_t i = 0; i < blocks.size(); i += 2) {
    FIRN_ASSERT_OK(pool().Free(blocks[i].ptr));
  }
  const std::vector<FilledBlock> kept = {blocks[1], blocks[3], blocks[5],
                                         blocks[7]};
  for (const FilledBlock& block : kept) pins.push_back(MustPin(block.ptr));
  std::vector<uint64_t> generations;
  for (const FilledBlock& block : kept) {
    generations.push_back(GenerationOf(block.ptr));
  }
  const uint64_t shared = pool().GetStats().partial_granules;
  EXPECT_EQ(pool().GetStats().pinned_granules, 2 * kept.size() + shared);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_EQ(report.moves, 0u);
  EXPECT_EQ(report.pinned_granules, shared);
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(GenerationOf(kept[i].ptr), generations[i]);
  }
  pins.clear();
  pins.push_back(MustPin(whole));
  EXPECT_EQ(pool().GetStats().pinned_granules, 2u);
  EXPECT_EQ(CountDamaged(kept), 0u);
}

// Two granules of four blocks each; one lacks its first, the other its second.
// A block of half a granule fits only if one of them moves over.
std::vector<FilledBlock> LeaveTwoQuarterHoles(Pool* pool) {
  std::vector<FilledBlock> blocks;
  for (uint64_t i = 0; i < 8; ++i) {
    const absl::StatusOr<void*> ptr = pool->Allocate(kGranule / 4);
    FIRN_EXPECT_OK(ptr.status());
    blocks.push_back({ptr.value_or(nullptr), kGranule / 4, i});
    Fill(blocks.back());
  }
  std::vector<FilledBlock> kept;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint64_t offset =
        reinterpret_cast<uintptr_t>(blocks[i].ptr) % kGranule;
    if (offset == (i < 4 ? 0 : kGranule / 4)) {
      FIRN_EXPECT_OK(pool->Free(blocks[i].ptr));
    } else {
      kept.push_back(blocks[i]);
    }
  }
  EXPECT_EQ(kept.size(), 6u);
  return kept;
}

TEST_P(PinTest, WhatPinsMadeFailSucceedsWhenTheyAreGone) {
  MakePool(2 * kGranule, /*move_on_failure=*/true);
  const std::vector<FilledBlock> kept = LeaveTwoQuarterHoles(&pool());
  std::vector<Pin> pins;
  for (const FilledBlock& block : kept) pins.push_back(MustPin(block.ptr));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(pool().Allocate(kGranule / 2).status(),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr("pinned 2 granules")));
  }
  EXPECT_EQ(pool().GetStats().granules_moved, 0u);
  pins.clear();
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(kGranule / 2));
  EXPECT_EQ(pool().GetStats().granules_moved, 1u);
  Fill({ptr, kGranule / 2, 99});
  EXPECT_EQ(CountDamaged(kept), 0u);
  EXPECT_THAT(pool().Allocate(kGranule / 2).status().message(),
              Not(HasSubstr("pinned")));
}

TEST_P(PinTest, APassThatFailsAtAnyCallLeavesThePinnedAsItWas) {
  uint64_t reported = 0;
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    MakePool(8 * kGranule, /*move_on_failure=*/false);
    const std::vector<FilledBlock> blocks = Fragment(kGranule / 8, 6);
    const Pin pin = MustPin(blocks[1].ptr);
    const uint64_t generation = GenerationOf(blocks[1].ptr);
    on_cpu_->faults().Reset();
    on_cpu_->faults().FailNth(n, DriverResult::kUnknown);
    const absl::Status status = pool().Compact().status();
    const bool reached = on_cpu_->faults().failures() > 0;
    on_cpu_->faults().Reset();
    if (!status.ok()) ++reported;
    EXPECT_EQ(GenerationOf(blocks[1].ptr), generation);
    EXPECT_EQ(CountDamaged(blocks), 0u);
    FIRN_ASSERT_OK(pool().CheckInvariants());
    EXPECT_EQ(pool().GetStats().pinned_blocks, 1u);
    if (!reached) {
      EXPECT_GT(pool().GetStats().granules_moved, 0u);
      break;
    }
  }
  EXPECT_GE(reported, 6u);
}

// Threads write to blocks while they are pinned, and only then, and passes run
// one after the other.
TEST_P(PinTest, PinnedBlocksMayBeUsedWhileOthersMove) {
  MakePool(32 * kMiB, /*move_on_failure=*/false);
  const std::vector<FilledBlock> blocks = Fragment(64 * kKiB, 6);
  std::atomic<uint64_t> rounds{0};
  std::atomic<uint64_t> wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      while (!stop.load()) {
        FilledBlock block;
        block.bytes = 512 + random() % (200 * kKiB);
        block.seed = random();
        const absl::StatusOr<void*> ptr = pool().Allocate(block.bytes);
        if (!ptr.ok()) continue;
        block.ptr = *ptr;
        {
          const absl::StatusOr<Pin> pin = pool().PinBlock(*ptr, "a thread");
          const uint64_t generation = pool().Generation(*ptr).value_or(0);
          Fill(block);
          std::this_thread::yield();
          if (!pin.ok() || pool().Free(*ptr).ok() || !IsIntact(block) ||
              generation != pool().Generation(*ptr).value_or(1)) {
            ++wrong;
          }
        }
        if (!pool().Free(*ptr).ok()) ++wrong;
        ++rounds;
      }
    });
  }
  uint64_t moves = 0;
  for (int i = 0; i < 400 && (i < 40 || rounds.load() < 60); ++i) {
    const absl::StatusOr<CompactionReport> report = pool().Compact();
    FIRN_EXPECT_OK(report.status());
    if (report.ok()) moves += report->moves;
    std::this_thread::yield();
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(moves, 0u);
  EXPECT_GT(rounds.load(), 0u);
  EXPECT_EQ(CountDamaged(blocks), 0u);
  EXPECT_EQ(pool().GetStats().pinned_blocks, 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

INSTANTIATE_TEST_SUITE_P(Extremes, PinTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn

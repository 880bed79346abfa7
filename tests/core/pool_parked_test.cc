// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks that were freed but keep their place for the next request of their
// size: large ones of the whole pool, small ones in the caches of threads.

#include <cstdint>
#include <memory>
#include <random>
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
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;

constexpr uint64_t kCapacity = 64 * kMiB;
constexpr uint64_t kGranule = 2 * kMiB;

class PoolParkedTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<PoolOnCpu>> on_cpu =
        PoolOnCpu::Real(kCapacity, /*move_on_failure=*/false, GetParam());
    FIRN_ASSERT_OK(on_cpu.status());
    on_cpu_ = std::move(*on_cpu);
    for (StreamHandle* stream : {&first_, &second_}) {
      ASSERT_EQ(on_cpu_->cpu().StreamCreate(stream, kStreamNonBlocking),
                DriverResult::kSuccess);
    }
  }

  Pool& pool() { return on_cpu_->pool(); }

  absl::StatusOr<void*> AllocateOn(StreamHandle stream, uint64_t bytes) {
    AllocateOptions options;
    options.stream = stream;
    return pool().Allocate(bytes, options);
  }

  // Blocks of `bytes` on `stream` until nothing fits.
  std::vector<void*> FillUp(StreamHandle stream, uint64_t bytes) {
    std::vector<void*> blocks;
    while (true) {
      const absl::StatusOr<void*> ptr = AllocateOn(stream, bytes);
      if (!ptr.ok()) return blocks;
      blocks.push_back(*ptr);
    }
  }

  uint64_t MappingCalls() {
    const DriverCalls calls = on_cpu_->counting().calls();
    return calls.create + calls.map + calls.unmap + calls.set_access +
           calls.release;
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
  StreamHandle first_ = nullptr;
  StreamHandle second_ = nullptr;
};

// --- Large blocks ---

TEST_P(PoolParkedTest, AFreedLargeBlockIsUnusedAtOnceAndReusedWhereItWas) {
  for (const uint64_t bytes :
       {8 * kMiB, kGranule, 5 * kMiB, 3 * kMiB + 300 * kKiB}) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(bytes));
    EXPECT_GE(pool().GetUsage().used_bytes, bytes);
    FIRN_ASSERT_OK(pool().Free(ptr));
    EXPECT_EQ(pool().GetUsage().used_bytes, 0u) << bytes;
    EXPECT_EQ(pool().GetUsage().live_bytes, 0u) << bytes;
    const uint64_t calls = MappingCalls();
    for (int i = 0; i < 3; ++i) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* again, pool().Allocate(bytes));
      EXPECT_EQ(again, ptr) << bytes;
      FIRN_ASSERT_OK(pool().Free(again));
    }
    EXPECT_EQ(MappingCalls(), calls) << bytes;
    const PoolStats stats = pool().GetStats();  // makes free memory of it
    EXPECT_EQ(stats.used_bytes, 0u) << bytes;
    EXPECT_EQ(stats.live_vgs, 0u) << bytes;
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }
}

TEST_P(PoolParkedTest, ASecondFreeOfALargeParkedBlockIsRefused) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(5 * kMiB));
  FIRN_ASSERT_OK(pool().Free(ptr));
  EXPECT_FALSE(pool().Free(ptr).ok());
  EXPECT_FALSE(pool().Generation(ptr).ok());
  FIRN_ASSERT_OK_AND_ASSIGN(void* again, pool().Allocate(5 * kMiB));
  FIRN_EXPECT_OK(pool().Generation(again));
  FIRN_EXPECT_OK(pool().Free(again));
  EXPECT_EQ(pool().GetStats().refused_frees, 1u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(PoolParkedTest, OtherSizesGetTheGranulesOfParkedLargeBlocks) {
  for (const uint64_t wanted_bytes :
       {kCapacity, 6 * kMiB, 7 * kMiB + 100 * kKiB, kMiB, 100 * kKiB,
        4 * kKiB}) {
    std::vector<void*> blocks = FillUp(nullptr, 4 * kMiB);
    ASSERT_EQ(blocks.size(), kCapacity / (4 * kMiB));
    for (void* ptr : blocks) FIRN_ASSERT_OK(pool().Free(ptr));
    blocks = FillUp(nullptr, wanted_bytes);
    const uint64_t taken_bytes = blocks.size() * wanted_bytes;
    EXPECT_GE(taken_bytes, kCapacity / 8 * 7) << wanted_bytes;
    FIRN_EXPECT_OK(pool().CheckInvariants());
    for (void* ptr : blocks) FIRN_ASSERT_OK(pool().Free(ptr));
    EXPECT_EQ(pool().GetStats().used_bytes, 0u) << wanted_bytes;
  }
}

TEST_P(PoolParkedTest, MoreLargeBlocksThanAreParkedAreFreeAllTheSame) {
  std::vector<void*> blocks = FillUp(nullptr, kGranule);
  ASSERT_EQ(blocks.size(), kCapacity / kGranule);
  for (size_t i = 0; i < blocks.size(); ++i) {
    FIRN_ASSERT_OK(pool().Free(blocks[i]));
    EXPECT_EQ(pool().GetUsage().used_bytes, kCapacity - (i + 1) * kGranule);
  }
  FIRN_ASSERT_OK(pool().Allocate(kCapacity));
}

TEST_P(PoolParkedTest, ARemainderUnderWhichSlotsWereTakenIsNotGivenAgain) {
  // Small blocks are put wherever there is room: beneath the remainders of
  // parked large blocks too. Those taken from there again must be whole.
  std::mt19937_64 random(1);
  std::vector<FilledBlock> live;
  for (int step = 0; step < 1200; ++step) {
    if (random() % 2 == 0 || live.empty()) {
      const uint64_t bytes = random() % 3 != 0
                                 ? 1 + random() % (300 * kKiB)
                                 : kGranule + (random() % 3) * 700 * kKiB;
      const absl::StatusOr<void*> ptr = pool().Allocate(bytes);
      if (ptr.ok()) {
        live.push_back({*ptr, bytes, random()});
        Fill(live.back());
        continue;
      }
    }
    std::swap(live[random() % live.size()], live.back());
    const FilledBlock block = live.back();
    live.pop_back();
    ASSERT_EQ(CountDamaged({block}), 0u);
    FIRN_ASSERT_OK(pool().Free(block.ptr));
    // A while of full memory, then of little.
    if (step % 400 > 300) {
      while (live.size() > 20) {
        FIRN_ASSERT_OK(pool().Free(live.back().ptr));
        live.pop_back();
      }
    }
  }
  EXPECT_EQ(CountDamaged(live), 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

// --- Small blocks ---

TEST_P(PoolParkedTest, WhatEndedThreadsLeftBehindIsFoundUnderPressure) {
  // Both streams are known before.
  for (const StreamHandle stream : {first_, second_}) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(stream, 512));
    FIRN_ASSERT_OK(pool().Free(ptr, stream));
  }
  for (int t = 0; t < 4; ++t) {
    std::thread([this, t] {
      std::vector<void*> blocks;
      for (uint64_t i = 0; i < 200; ++i) {
        const absl::StatusOr<void*> ptr =
            AllocateOn(first_, 512 + i % 50 * 4096);
        ASSERT_TRUE(ptr.ok()) << ptr.status();
        blocks.push_back(*ptr);
      }
      for (void* ptr : blocks) {
        EXPECT_TRUE(pool().Free(ptr, t % 2 == 0 ? first_ : second_).ok());
      }
    }).join();
  }
  EXPECT_GT(pool().GetStats().parked_blocks, 0u);
  EXPECT_GT(pool().GetStats().used_bytes, 0u);
  FIRN_ASSERT_OK_AND_ASSIGN(void* whole, AllocateOn(second_, kCapacity));
  EXPECT_EQ(pool().GetStats().parked_blocks, 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
  FIRN_EXPECT_OK(pool().Free(whole, second_));
}

TEST_P(PoolParkedTest, ContentsSurviveAPassWithParkedBlocksAround) {
  constexpr uint64_t kSizes[] = {512,       4 * kKiB,   10 * kKiB, 50 * kKiB,
                                 96 * kKiB, 200 * kKiB, 3 * kMiB};
  std::mt19937_64 random(3);
  const StreamHandle streams[] = {first_, second_, nullptr};
  std::vector<FilledBlock> live;
  uint64_t moves = 0;
  for (int round = 0; round < 4; ++round) {
    while (true) {
      const uint64_t bytes = kSizes[random() % 7];
      const absl::StatusOr<void*> ptr =
          AllocateOn(streams[random() % 3], bytes);
      if (!ptr.ok()) break;
      live.push_back({*ptr, bytes, random()});
      Fill(live.back());
    }
    std::vector<FilledBlock> kept;
    for (const FilledBlock& block : live) {
      if (random() % 5 == 0) {
        kept.push_back(block);
      } else {
        FIRN_ASSERT_OK(pool().Free(block.ptr, streams[random() % 3]));
      }
    }
    live = kept;
    ASSERT_EQ(CountDamaged(live), 0u) << "before the pass, round " << round;
    EXPECT_GT(pool().GetStats().parked_blocks, 0u);
    FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
    moves += report.moves;
    EXPECT_EQ(CountDamaged(live), 0u);
    EXPECT_EQ(pool().GetStats().parked_blocks, 0u);
    FIRN_EXPECT_OK(pool().CheckInvariants());
    // From caches, right after the pass, and among what was moved.
    for (int i = 0; i < 200; ++i) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 4 * kKiB));
      Fill({ptr, 4 * kKiB, 1});
      FIRN_ASSERT_OK(pool().Free(ptr, first_));
    }
    EXPECT_EQ(CountDamaged(live), 0u);
  }
  EXPECT_GT(moves, 0u);
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolParkedTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         ::firn::testing::SyncName);

}  // namespace
}  // namespace firn

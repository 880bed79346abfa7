// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What streams may still be using is given to nobody else, on a device on which
// no memory can be moved; threads may do anything at once.

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::FreeBytes;
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::MakeFixedPool;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;

constexpr DriverResult kOk = DriverResult::kSuccess;

class FixedPoolStreamsTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<PoolOnCpu>> on_cpu =
        MakeFixedPool(32 * kMiB, GetParam());
    FIRN_ASSERT_OK(on_cpu.status());
    on_cpu_ = std::move(*on_cpu);
    for (StreamHandle* stream : {&first_, &second_}) {
      ASSERT_EQ(on_cpu_->cpu().StreamCreate(stream, kStreamNonBlocking), kOk);
    }
  }
  void TearDown() override {
    gate_.store(true);
    if (opener_.joinable()) opener_.join();
  }
  // Not by this thread, which may be in a call that waits.
  void OpenSoon() {
    opener_ = std::thread([this] {
      absl::SleepFor(absl::Milliseconds(20));
      gate_.store(true);
    });
  }
  Pool& pool() { return on_cpu_->pool(); }
  absl::StatusOr<void*> AllocateOn(StreamHandle stream, uint64_t bytes) {
    AllocateOptions options;
    options.stream = stream;
    return pool().Allocate(bytes, options);
  }
  // Keeps `stream` busy until the gate opens, then writes over the block.
  void WriteWhenOpen(StreamHandle stream, const FilledBlock& block) {
    KernelRange range;
    range.address = reinterpret_cast<uintptr_t>(block.ptr);
    range.bytes = block.bytes;
    range.writes = true;
    const auto body = [this, block] {
      while (!gate_.load()) std::this_thread::yield();
      Fill(block);
    };
    ASSERT_EQ(on_cpu_->cpu().LaunchKernel(stream, {range}, body), kOk);
  }

  // Outlives the driver, whose workers look at it.
  std::atomic<bool> gate_{false};
  std::thread opener_;
  std::unique_ptr<PoolOnCpu> on_cpu_;
  StreamHandle first_ = nullptr;
  StreamHandle second_ = nullptr;
};

TEST_P(FixedPoolStreamsTest, MemoryFreedOnItsOnlyStreamIsReusedAtOnce) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 4 * kMiB));
  WriteWhenOpen(first_, {ptr, 4 * kMiB, 1});
  FIRN_ASSERT_OK(pool().Free(ptr, first_));
  FIRN_ASSERT_OK_AND_ASSIGN(void* again, AllocateOn(first_, 4 * kMiB));
  EXPECT_EQ(again, ptr);
  gate_.store(true);
}

TEST_P(FixedPoolStreamsTest, MemoryInUseOnAnotherStreamIsNotReused) {
  // Both streams are known from here on.
  FIRN_ASSERT_OK_AND_ASSIGN(void* warm, AllocateOn(second_, 512));
  FIRN_ASSERT_OK(pool().Free(warm, second_));
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 20 * kMiB));
  WriteWhenOpen(first_, {ptr, 20 * kMiB, 1});
  FIRN_ASSERT_OK(pool().Free(ptr, first_));
  EXPECT_EQ(pool().GetStats().live_bytes, 0u);
  EXPECT_EQ(pool().GetStats().pending_free_bytes, 20 * kMiB);
  EXPECT_THAT(pool().Free(ptr, first_),
              StatusIs(absl::StatusCode::kInvalidArgument));
  FIRN_EXPECT_OK(pool().CheckInvariants());
  OpenSoon();
  FIRN_ASSERT_OK_AND_ASSIGN(void* other, AllocateOn(second_, 4 * kMiB));
  Fill({other, 4 * kMiB, 2});
  // More than is free without the first block: waits for its stream.
  FIRN_ASSERT_OK_AND_ASSIGN(void* large, AllocateOn(second_, 18 * kMiB));
  Fill({large, 18 * kMiB, 3});
  EXPECT_EQ(pool().GetStats().pending_free_bytes, 0u);
  EXPECT_TRUE(IsIntact({other, 4 * kMiB, 2}));
  EXPECT_TRUE(IsIntact({large, 18 * kMiB, 3}));
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(FixedPoolStreamsTest, TrimWaitsForWorkOnMemoryFreedWithoutAToken) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 4 * kMiB));
  WriteWhenOpen(first_, {ptr, 4 * kMiB, 1});
  FIRN_ASSERT_OK(pool().Free(ptr, first_));
  OpenSoon();
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t released, pool().Trim());
  EXPECT_EQ(released, 32 * kMiB);
  EXPECT_TRUE(gate_.load());
  EXPECT_EQ(on_cpu_->cpu().StreamQuery(first_), kOk);
}

TEST_P(FixedPoolStreamsTest, ThePoolWaitsForWorkBeforeItGoes) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 4 * kMiB));
  WriteWhenOpen(first_, {ptr, 4 * kMiB, 1});
  OpenSoon();
  on_cpu_->DestroyPool();
  EXPECT_EQ(on_cpu_->cpu().StreamSynchronize(first_), kOk);
  EXPECT_EQ(FreeBytes(on_cpu_->cpu()), 64 * kMiB);
}

TEST_P(FixedPoolStreamsTest, ThreadsAllocateCheckAndFreeWhileAnotherTrims) {
  constexpr int kThreads = 3;
  std::atomic<uint64_t> damaged{0};
  std::atomic<bool> done{false};
  const auto work = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    StreamHandle stream = nullptr;
    ASSERT_EQ(on_cpu_->cpu().StreamCreate(&stream, kStreamNonBlocking), kOk);
    std::vector<FilledBlock> blocks;
    for (uint64_t step = 0; step < 200; ++step) {
      const uint64_t bytes = 1 + random() % (200 * kKiB);
      const absl::StatusOr<void*> ptr = AllocateOn(stream, bytes);
      if (ptr.ok()) {
        blocks.push_back({*ptr, bytes, seed * 1000 + step});
        Fill(blocks.back());
      }
      if (blocks.size() > 10) {
        const size_t index = random() % blocks.size();
        if (!IsIntact(blocks[index])) damaged.fetch_add(1);
        FIRN_ASSERT_OK(pool().Free(blocks[index].ptr, stream));
        blocks[index] = blocks.back();
        blocks.pop_back();
      }
    }
    damaged.fetch_add(CountDamaged(blocks));
    for (const FilledBlock& block : blocks) {
      FIRN_ASSERT_OK(pool().Free(block.ptr, stream));
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= kThreads; ++seed) {
    threads.emplace_back(work, seed);
  }
  std::thread trimmer([&] {
    while (!done.load()) {
      FIRN_EXPECT_OK(pool().Trim().status());
      FIRN_EXPECT_OK(pool().CheckInvariants());
      absl::SleepFor(absl::Milliseconds(2));
    }
  });
  for (std::thread& thread : threads) thread.join();
  done.store(true);
  trimmer.join();
  EXPECT_EQ(damaged.load(), 0u);
  ASSERT_EQ(on_cpu_->cpu().CtxSynchronize(), kOk);
  FIRN_EXPECT_OK(pool().Trim().status());
  EXPECT_EQ(pool().GetStats().held_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Extremes, FixedPoolStreamsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         firn::testing::SyncName);

}  // namespace
}  // namespace firn

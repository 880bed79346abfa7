// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What streams may still be using is given to nobody else; threads may do
// anything at once.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::FillOnStream;
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::kUnderThreadSanitizer;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;

// A driver from before there were unique ids of streams.
class DriverWithoutStreamIds : public DriverWrapper {
 public:
  using DriverWrapper::DriverWrapper;
  DriverResult StreamGetId(StreamHandle /*stream*/, uint64_t* /*id*/) override {
    return DriverResult::kNotSupported;
  }
};

class PoolStreamsTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<PoolOnCpu>> on_cpu =
        PoolOnCpu::Real(32 * kMiB, /*move_on_failure=*/false, GetParam());
    FIRN_ASSERT_OK(on_cpu.status());
    on_cpu_ = std::move(*on_cpu);
    for (StreamHandle* stream : {&first_, &second_}) {
      ASSERT_EQ(on_cpu_->cpu().StreamCreate(stream, kStreamNonBlocking),
                DriverResult::kSuccess);
    }
  }

  void TearDown() override {
    gate_.store(true);
    if (opener_.joinable()) opener_.join();
  }

  // Kernels that wait for the gate must not wait for this thread: it may be
  // inside a call that waits for them.
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
    ASSERT_EQ(on_cpu_->cpu().LaunchKernel(stream, {range},
                                          [this, block] {
                                            while (!gate_.load()) {
                                              std::this_thread::yield();
                                            }
                                            Fill(block);
                                          }),
              DriverResult::kSuccess);
  }

  // Outlives the driver, whose workers look at it.
  std::atomic<bool> gate_{false};
  std::thread opener_;
  std::unique_ptr<PoolOnCpu> on_cpu_;
  StreamHandle first_ = nullptr;
  StreamHandle second_ = nullptr;
};

TEST_P(PoolStreamsTest, MemoryFreedOnItsOnlyStreamIsReusedAtOnce) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 4 * kMiB));
  WriteWhenOpen(first_, {ptr, 4 * kMiB, 1});
  FIRN_ASSERT_OK(pool().Free(ptr, first_));
  FIRN_ASSERT_OK_AND_ASSIGN(void* again, AllocateOn(first_, 4 * kMiB));
  EXPECT_EQ(again, ptr);
  gate_.store(true);
}

TEST_P(PoolStreamsTest, MemoryInUseOnAnotherStreamIsNotReused) {
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
  OpenSoon();
  FIRN_ASSERT_OK_AND_ASSIGN(void* other, AllocateOn(second_, 4 * kMiB));
  Fill({other, 4 * kMiB, 2});
  // More than is free without the first block: waits for its stream.
  FIRN_ASSERT_OK_AND_ASSIGN(void* large, AllocateOn(second_, 24 * kMiB));
  Fill({large, 24 * kMiB, 3});
  EXPECT_EQ(pool().GetStats().pending_free_bytes, 0u);
  EXPECT_TRUE(IsIntact({other, 4 * kMiB, 2}));
  EXPECT_TRUE(IsIntact({large, 24 * kMiB, 3}));
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(PoolStreamsTest, ASecondStreamWaitsForWhatWasFreedWithoutAnEvent) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 30 * kMiB));
  WriteWhenOpen(first_, {ptr, 30 * kMiB, 1});
  FIRN_ASSERT_OK(pool().Free(ptr, first_));
  OpenSoon();
  FIRN_ASSERT_OK_AND_ASSIGN(void* other, AllocateOn(second_, 30 * kMiB));
  EXPECT_TRUE(gate_.load());
  Fill({other, 30 * kMiB, 2});
  EXPECT_TRUE(IsIntact({other, 30 * kMiB, 2}));
}

TEST_P(PoolStreamsTest, AStreamOfNoDriverIsRefused) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(512));
  int no_stream = 0;
  EXPECT_THAT(pool().Free(ptr, reinterpret_cast<StreamHandle>(&no_stream)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("stream")));
  EXPECT_EQ(pool().GetStats().live_bytes, 512u);
  FIRN_EXPECT_OK(pool().Free(ptr));
}

TEST_P(PoolStreamsTest, ADestroyedStreamStillProtectsWhatItUses) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* warm, AllocateOn(second_, 512));
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 30 * kMiB));
  WriteWhenOpen(first_, {ptr, 30 * kMiB, 1});
  FIRN_ASSERT_OK(pool().Free(ptr, first_));
  ASSERT_EQ(on_cpu_->cpu().StreamDestroy(first_), DriverResult::kSuccess);
  EXPECT_EQ(pool().GetStats().pending_free_bytes, 30 * kMiB);
  gate_.store(true);
  FIRN_ASSERT_OK_AND_ASSIGN(void* other, AllocateOn(second_, 30 * kMiB));
  // The work is done; but a token tells ThreadSanitizer nothing.
  if (kUnderThreadSanitizer) {
    EXPECT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
  }
  Fill({other, 30 * kMiB, 2});
  EXPECT_TRUE(IsIntact({other, 30 * kMiB, 2}));
  FIRN_EXPECT_OK(pool().Free(warm, second_));
}

TEST_P(PoolStreamsTest, CompactWaitsForKernelsThatWereLaunchedBefore) {
  // Half of each granule, in two kinds that can be merged.
  std::vector<FilledBlock> blocks;
  for (uint64_t i = 0; i < 64; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 500 * kKiB));
    blocks.push_back({ptr, 500 * kKiB, i});
  }
  std::vector<FilledBlock> kept;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 4 == 1) {
      kept.push_back(blocks[i]);
    } else {
      FIRN_ASSERT_OK(pool().Free(blocks[i].ptr, first_));
    }
  }
  for (const FilledBlock& block : kept) {
    ASSERT_EQ(FillOnStream(&on_cpu_->cpu(), block, second_),
              DriverResult::kSuccess);
  }
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_GT(report.moves, 0u);
  EXPECT_EQ(CountDamaged(kept), 0u);
  EXPECT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
}

TEST_P(PoolStreamsTest, TrimWaitsForWorkOnMemoryFreedWithoutAnEvent) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 20 * kMiB));
  WriteWhenOpen(first_, {ptr, 20 * kMiB, 1});
  FIRN_ASSERT_OK(pool().Free(ptr, first_));
  OpenSoon();
  FIRN_ASSERT_OK(pool().Trim());
  EXPECT_TRUE(gate_.load());
  EXPECT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
}

TEST_P(PoolStreamsTest, AHarvestWaitsForWorkOnMemoryFreedWithoutAnEvent) {
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, AllocateOn(first_, 32 * kMiB));
  WriteWhenOpen(first_, {ptr, 32 * kMiB, 1});
  FIRN_ASSERT_OK(pool().Free(ptr, first_));
  OpenSoon();
  // A small block has no mapping yet: its granule comes from beneath the freed
  // one.
  FIRN_ASSERT_OK_AND_ASSIGN(void* small, AllocateOn(first_, 512 * kKiB));
  EXPECT_TRUE(gate_.load());
  EXPECT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
  Fill({small, 512 * kKiB, 2});
  EXPECT_TRUE(IsIntact({small, 512 * kKiB, 2}));
}

TEST_P(PoolStreamsTest, WithoutStreamIdsEveryFreeWaitsForItsStream) {
  DriverWithoutStreamIds driver(&on_cpu_->cpu());
  PoolOptions options;
  options.driver = std::shared_ptr<Driver>(&driver, [](Driver*) {});
  options.capacity_bytes = 16 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Pool> pool, Pool::Create(options));
  AllocateOptions on_first;
  on_first.stream = first_;
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool->Allocate(4 * kMiB, on_first));
  WriteWhenOpen(first_, {ptr, 4 * kMiB, 1});
  FIRN_ASSERT_OK(pool->Free(ptr, first_));
  EXPECT_EQ(pool->GetStats().pending_free_bytes, 4 * kMiB);
  OpenSoon();  // the pool waits for the device at its end
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolStreamsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         ::firn::testing::SyncName);

class PoolThreadsTest : public ::testing::TestWithParam<CpuSync> {};

TEST_P(PoolThreadsTest, ThreadsAllocateCheckAndFreeWhileAnotherCompacts) {
  // Threads that touch their blocks keep to level 0: they hold no work across
  // a pass. The pass and the touching exclude each other as a program's own
  // synchronisation would; allocations and frees do not.
  FIRN_ASSERT_OK_AND_ASSIGN(
      auto on_cpu,
      PoolOnCpu::Real(48 * kMiB, /*move_on_failure=*/false, GetParam()));
  Pool& pool = on_cpu->pool();
  Mutex touching;
  std::atomic<uint64_t> damaged{0};
  std::atomic<int> running{4};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::vector<FilledBlock> blocks;
      for (int step = 0; step < 400; ++step) {
        if (random() % 5 < 3) {
          const uint64_t bytes = 1 + random() % (300 * kKiB);
          const absl::StatusOr<void*> ptr = pool.Allocate(bytes);
          if (!ptr.ok()) continue;
          blocks.push_back({*ptr, bytes, random()});
          MutexLock lock(&touching);
          Fill(blocks.back());
        } else if (!blocks.empty()) {
          const size_t i = random() % blocks.size();
          {
            MutexLock lock(&touching);
            if (!IsIntact(blocks[i])) ++damaged;
          }
          if (!pool.Free(blocks[i].ptr).ok()) ++damaged;
          blocks[i] = blocks.back();
          blocks.pop_back();
        }
      }
      for (const FilledBlock& block : blocks) {
        {
          MutexLock lock(&touching);
          if (!IsIntact(block)) ++damaged;
        }
        if (!pool.Free(block.ptr).ok()) ++damaged;
      }
      --running;
    });
  }
  while (running > 0) {
    {
      MutexLock lock(&touching);
      if (!pool.Compact().ok()) ++damaged;
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged.load(), 0u);
  EXPECT_EQ(pool.GetStats().live_bytes, 0u);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolThreadsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         ::firn::testing::SyncName);

}  // namespace
}  // namespace firn

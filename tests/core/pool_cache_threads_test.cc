// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Caches of small blocks while several threads use the pool: nothing is freed
// twice, figures are right, and nothing stays behind.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_wrapper.h"
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

constexpr uint64_t kBytes = 4 * kKiB;

class PoolCacheThreadsTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<PoolOnCpu>> on_cpu =
        PoolOnCpu::Real(32 * kMiB, /*move_on_failure=*/false, GetParam());
    FIRN_ASSERT_OK(on_cpu.status());
    on_cpu_ = std::move(*on_cpu);
  }

  Pool& pool() { return on_cpu_->pool(); }

  StreamHandle NewStream() {
    StreamHandle stream = nullptr;
    EXPECT_EQ(on_cpu_->cpu().StreamCreate(&stream, kStreamNonBlocking),
              DriverResult::kSuccess);
    return stream;
  }

  absl::StatusOr<void*> AllocateOn(StreamHandle stream, uint64_t bytes) {
    AllocateOptions options;
    options.stream = stream;
    return pool().Allocate(bytes, options);
  }

  // Two threads free one block at a time, at the same time: `free_first` and
  // `free_second`, after what each prepares.
  void FreeTwice(int rounds, StreamHandle first, StreamHandle second,
                 const std::function<void()>& prepare_first,
                 const std::function<void()>& prepare_second) {
    std::atomic<int> round{0};
    std::atomic<int> done{0};
    std::atomic<int> freed{0};
    void* block = nullptr;
    const auto run = [&](StreamHandle stream,
                         const std::function<void()>& prepare) {
      prepare();
      ++done;
      for (int i = 1; i <= rounds; ++i) {
        while (round.load() < i) std::this_thread::yield();
        if (pool().Free(block, stream).ok()) ++freed;
        ++done;
      }
    };
    std::thread one(run, first, prepare_first);
    std::thread other(run, second, prepare_second);
    const auto wait = [&] {
      while (done.load() < 2) std::this_thread::yield();
    };
    wait();
    const PoolStats before = pool().GetStats();
    int wrong = 0;
    for (int i = 1; i <= rounds; ++i) {
      // Out of reach of what ends the rounds: the threads wait for them.
      const absl::StatusOr<void*> ptr = AllocateOn(first, kBytes);
      if (!ptr.ok()) ++wrong;
      block = ptr.value_or(nullptr);
      freed = 0;
      done = 0;
      round = i;
      wait();
      if (freed != 1) ++wrong;
    }
    one.join();
    other.join();
    EXPECT_EQ(wrong, 0) << "blocks freed twice, or not at all";
    const PoolStats after = pool().GetStats();
    EXPECT_EQ(after.frees - before.frees, static_cast<uint64_t>(rounds));
    EXPECT_EQ(after.refused_frees - before.refused_frees,
              static_cast<uint64_t>(rounds));
    EXPECT_EQ(after.live_bytes, before.live_bytes);
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

// --- Frees of the same block ---

TEST_P(PoolCacheThreadsTest, OfTwoFreesOnTheSameStreamOneIsRefused) {
  const auto warm = [this] {
    const absl::StatusOr<void*> ptr = pool().Allocate(kBytes);
    EXPECT_TRUE(ptr.ok() && pool().Free(*ptr).ok());
  };
  FreeTwice(3000, nullptr, nullptr, warm, warm);
}

TEST_P(PoolCacheThreadsTest, OfAFreeBehindTheLockAndOneBeforeItOneIsRefused) {
  // The cache of the first thread serves as many streams as it can, none of
  // which is this one: all its frees go behind the lock.
  const StreamHandle first = NewStream();
  const StreamHandle second = NewStream();
  FIRN_ASSERT_OK_AND_ASSIGN(void* named_first, AllocateOn(second, kBytes));
  FIRN_ASSERT_OK(pool().Free(named_first, second));
  std::vector<StreamHandle> served;
  for (int i = 0; i < 8; ++i) served.push_back(NewStream());
  const auto fill_cache = [&] {
    for (const StreamHandle stream : served) {
      // Once known, the stream is given slots for its cache.
      for (int i = 0; i < 2; ++i) {
        const absl::StatusOr<void*> ptr = AllocateOn(stream, kBytes);
        ASSERT_TRUE(ptr.ok());
        ASSERT_TRUE(pool().Free(*ptr, stream).ok());
      }
    }
  };
  const auto warm = [&] {
    const absl::StatusOr<void*> ptr = AllocateOn(second, kBytes);
    EXPECT_TRUE(ptr.ok() && pool().Free(*ptr, second).ok());
  };
  FreeTwice(3000, first, second, fill_cache, warm);
}

// --- Figures ---

TEST_P(PoolCacheThreadsTest, LiveBytesNeverExceedWhatIsLive) {
  // At most one block of each size is live at a time, and none when all began.
  constexpr uint64_t kThreads = 3;
  std::atomic<uint64_t> running{kThreads};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300'000; ++i) {
        const absl::StatusOr<void*> ptr = pool().Allocate(kBytes * (t + 1));
        if (ptr.ok()) pool().Free(*ptr).IgnoreError();
      }
      --running;
    });
  }
  uint64_t most = 0;
  absl::Status invariants;
  for (int i = 0; running.load() > 0; ++i) {
    most = std::max(most, pool().GetUsage().live_bytes);
    if (i % 64 == 0) invariants.Update(pool().CheckInvariants());
  }
  for (std::thread& thread : threads) thread.join();
  // A thread's last block may be counted along with its next.
  EXPECT_LE(most, 2 * kBytes * (1 + 2 + 3));
  EXPECT_LE(pool().GetStats().peak_live_bytes, 2 * kBytes * (1 + 2 + 3));
  FIRN_EXPECT_OK(invariants);
  EXPECT_EQ(pool().GetStats().live_bytes, 0u);
}

TEST_P(PoolCacheThreadsTest, BlocksHandedToAnotherThreadAreCountedRight) {
  // One allocates, the other frees: what each cache counts grows without end.
  constexpr int kBlocks = 30'000;
  std::array<std::atomic<void*>, 64> ring = {};
  std::thread freeing([&] {
    for (size_t i = 0; i < kBlocks; ++i) {
      std::atomic<void*>& place = ring[i % ring.size()];
      void* block = nullptr;
      while ((block = place.load()) == nullptr) std::this_thread::yield();
      pool().Free(block).IgnoreError();
      place.store(nullptr);
    }
  });
  std::atomic<bool> is_over{false};
  uint64_t most = 0;
  std::thread looking([&] {
    while (!is_over.load()) {
      most = std::max(most, pool().GetUsage().live_bytes);
    }
  });
  for (size_t i = 0; i < kBlocks; ++i) {
    std::atomic<void*>& place = ring[i % ring.size()];
    while (place.load() != nullptr) std::this_thread::yield();
    const absl::StatusOr<void*> block = pool().Allocate(kBytes);
    // After a failure an address that is refused, and so shows in the counts.
    place.store(block.value_or(&ring));
  }
  freeing.join();
  is_over.store(true);
  looking.join();
  // Nothing is wrapped around: no more than was ever allocated.
  EXPECT_LE(most, uint64_t{kBlocks} * kBytes);
  const PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.live_bytes, 0u);
  EXPECT_EQ(stats.live_allocations, 0u);
  EXPECT_EQ(stats.allocations, uint64_t{kBlocks});
  EXPECT_EQ(stats.frees, uint64_t{kBlocks});
  EXPECT_EQ(stats.used_bytes, 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

struct Counted {
  uint64_t allocations = 0;
  uint64_t frees = 0;
  uint64_t live_bytes = 0;
  std::vector<FilledBlock> live;
};

TEST_P(PoolCacheThreadsTest, CountsAreExactAndAllIsUnusedAfterTheLastFree) {
  const std::array<StreamHandle, 3> streams = {nullptr, NewStream(),
                                               NewStream()};
  for (const size_t stream_count : {size_t{1}, streams.size()}) {
    std::array<Counted, 4> counted;
    const PoolStats before = pool().GetStats();
    std::vector<std::thread> threads;
    for (size_t t = 0; t < counted.size(); ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        Counted& own = counted[t];
        for (int step = 0; step < 3000; ++step) {
          const StreamHandle stream = streams[random() % stream_count];
          if (random() % 2 == 0 && own.live.size() < 100) {
            const uint64_t bytes = 1 + random() % (16 * kKiB);
            const absl::StatusOr<void*> ptr = AllocateOn(stream, bytes);
            if (!ptr.ok()) continue;
            ++own.allocations;
            own.live_bytes += bytes;
            own.live.push_back({*ptr, bytes, random()});
            Fill(own.live.back());
          } else if (!own.live.empty()) {
            std::swap(own.live[random() % own.live.size()], own.live.back());
            if (IsIntact(own.live.back()) &&
                pool().Free(own.live.back().ptr, stream).ok()) {
              ++own.frees;
              own.live_bytes -= own.live.back().bytes;
            }
            own.live.pop_back();
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    uint64_t allocations = 0;
    uint64_t frees = 0;
    uint64_t live_bytes = 0;
    uint64_t live_allocations = 0;
    for (const Counted& own : counted) {
      allocations += own.allocations;
      frees += own.frees;
      live_bytes += own.live_bytes;
      live_allocations += own.live.size();
      EXPECT_EQ(CountDamaged(own.live), 0u);
    }
    const PoolStats after = pool().GetStats();
    EXPECT_EQ(after.allocations - before.allocations, allocations);
    EXPECT_EQ(after.frees - before.frees, frees);
    EXPECT_EQ(after.live_bytes, live_bytes);
    EXPECT_EQ(after.live_allocations, live_allocations);
    EXPECT_EQ(after.live_allocations, allocations - frees);
    EXPECT_GT(after.cache_hits, before.cache_hits + allocations / 4);
    EXPECT_LE(after.cache_hits - before.cache_hits, allocations);
    EXPECT_EQ(after.refused_frees, before.refused_frees);
    FIRN_EXPECT_OK(pool().CheckInvariants());

    for (const Counted& own : counted) {
      for (const FilledBlock& block : own.live) {
        FIRN_EXPECT_OK(pool().Free(block.ptr, streams[stream_count - 1]));
      }
    }
    // With several streams a pass finds them idle, where figures do not ask.
    if (stream_count > 1) {
      FIRN_ASSERT_OK(pool().Compact());
    }
    const PoolStats end = pool().GetStats();
    EXPECT_EQ(end.live_bytes, 0u);
    EXPECT_EQ(end.used_bytes, 0u);
    EXPECT_EQ(end.parked_blocks, 0u);
    EXPECT_EQ(end.pending_free_bytes, 0u);
    FIRN_ASSERT_OK(pool().Trim());
    EXPECT_EQ(pool().GetStats().held_bytes, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolCacheThreadsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         ::firn::testing::SyncName);

// --- Memory that is freed while the pool waits ---

// Does something once, right after the device was found idle.
class DriverWithHookAfterIdle : public DriverWrapper {
 public:
  using DriverWrapper::DriverWrapper;
  DriverResult CtxSynchronize() override {
    const DriverResult result = DriverWrapper::CtxSynchronize();
    std::function<void()> hook;
    std::swap(hook, hook_);
    if (hook) hook();
    return result;
  }
  void set_hook(std::function<void()> hook) { hook_ = std::move(hook); }

 private:
  std::function<void()> hook_;
};

TEST(PoolCacheWaitTest, ABlockFreedAfterTheWaitIsNotGivenToAnotherStream) {
  CpuDriverOptions driver_options;
  driver_options.device_bytes = 16 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<CpuDriver> cpu,
                            CpuDriver::Create(driver_options));
  auto driver = std::make_shared<DriverWithHookAfterIdle>(cpu.get());
  StreamHandle first = nullptr;
  StreamHandle second = nullptr;
  for (StreamHandle* stream : {&first, &second}) {
    ASSERT_EQ(cpu->StreamCreate(stream, kStreamNonBlocking),
              DriverResult::kSuccess);
  }
  PoolOptions options;
  options.driver = driver;
  options.capacity_bytes = 2 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Pool> pool, Pool::Create(options));
  AllocateOptions on_first;
  on_first.stream = first;
  AllocateOptions on_second;
  on_second.stream = second;
  // This thread's cache serves both streams.
  for (int i = 0; i < 2; ++i) {
    for (const AllocateOptions& on : {on_first, on_second}) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool->Allocate(kBytes, on));
      FIRN_ASSERT_OK(pool->Free(ptr, on.stream));
    }
  }
  // The whole pool: the next allocation has to wait for what is freed.
  std::vector<void*> blocks;
  while (true) {
    const absl::StatusOr<void*> ptr = pool->Allocate(kBytes, on_first);
    if (!ptr.ok()) break;
    blocks.push_back(*ptr);
  }
  ASSERT_GT(blocks.size(), 100u);
  void* const idle = blocks[0];
  const FilledBlock busy = {blocks[1], kBytes, 1};
  FIRN_ASSERT_OK(pool->Free(idle, first));
  std::atomic<bool> gate{false};
  std::thread opener;
  driver->set_hook([&] {
    // Another thread might do this now: blocks are parked without the lock.
    KernelRange range;
    range.address = reinterpret_cast<uintptr_t>(busy.ptr);
    range.bytes = busy.bytes;
    range.writes = true;
    EXPECT_EQ(cpu->LaunchKernel(first, {range},
                                [&] {
                                  while (!gate.load()) {
                                    std::this_thread::yield();
                                  }
                                  Fill(busy);
                                }),
              DriverResult::kSuccess);
    FIRN_EXPECT_OK(pool->Free(busy.ptr, first));
    opener = std::thread([&gate] {
      absl::SleepFor(absl::Milliseconds(50));
      gate.store(true);
    });
  });
  // Both: the one that is in use when the kernel is done with it.
  std::vector<FilledBlock> taken;
  for (uint64_t i = 0; i < 2; ++i) {
    const absl::StatusOr<void*> ptr = pool->Allocate(kBytes, on_second);
    if (!ptr.ok()) {
      ADD_FAILURE() << ptr.status();
      break;
    }
    taken.push_back({*ptr, kBytes, 10 + i});
    Fill(taken.back());
  }
  EXPECT_TRUE(opener.joinable()) << "the pool never waited";
  if (opener.joinable()) opener.join();
  EXPECT_EQ(cpu->CtxSynchronize(), DriverResult::kSuccess);
  EXPECT_EQ(CountDamaged(taken), 0u);
  pool.reset();
}

}  // namespace
}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The history while several threads use the pool and pass blocks on to each
// other: events of each block are in order, and a replay ends where the pool
// is.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "firn/core/pool.h"
#include "gtest/gtest.h"
#include "tests/core/history_scene.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::kUnderThreadSanitizer;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::Replay;
using ::firn::testing::SyncName;

constexpr int kThreads = 4;
constexpr size_t kPlaces = 64;

class HistoryThreadsTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void Make(uint32_t entries) {
    CpuDriverOptions driver;
    driver.sync = GetParam();
    driver.device_bytes = 128 * kMiB;
    PoolOptions options;
    options.capacity_bytes = 64 * kMiB;
    options.history_entries = entries;
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_, PoolOnCpu::Create(driver, options));
  }
  Pool& pool() { return on_cpu_->pool(); }

  // Puts blocks into places, and frees what it finds there: mostly another
  // thread's.
  void UseBlocks(uint64_t seed, int rounds, StreamHandle stream) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < rounds; ++i) {
      AllocateOptions options;
      options.stream = stream;
      const uint64_t bytes =
          random() % 64 == 0 ? 3 * kMiB : uint64_t{512} << random() % 5;
      const absl::StatusOr<void*> ptr = pool().Allocate(bytes, options);
      void* const former =
          places_[random() % kPlaces].exchange(ptr.ok() ? *ptr : nullptr);
      if (former != nullptr && !pool().Free(former, stream).ok()) ++failures_;
    }
  }

  void Run(const std::vector<StreamHandle>& streams) {
    constexpr int kRounds = kUnderThreadSanitizer ? 1000 : 8000;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, i, &streams] {
        UseBlocks(i + 1, kRounds, streams[i % streams.size()]);
      });
    }
    // Somebody is watching all the while.
    std::thread reader([this, &stop] {
      while (!stop.load()) {
        Replay(pool().GetHistory());
        std::this_thread::yield();
      }
    });
    for (std::thread& thread : threads) thread.join();
    stop.store(true);
    reader.join();
    EXPECT_EQ(failures_.load(), 0u);
  }

  std::map<uint64_t, uint64_t> CountPlaces() const {
    std::map<uint64_t, uint64_t> live;
    for (const auto& place : places_) {
      const void* const ptr = place.load();
      if (ptr != nullptr) live.emplace(reinterpret_cast<uintptr_t>(ptr), 0);
    }
    return live;
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
  std::array<std::atomic<void*>, kPlaces> places_{};
  std::atomic<uint64_t> failures_{0};
};

TEST_P(HistoryThreadsTest, AReplayEndsWithWhatIsLive) {
  Make(1 << 18);
  Run({nullptr});
  const History history = pool().GetHistory();
  ASSERT_EQ(history.overwritten, 0u);
  const auto live = Replay(history).live;
  std::map<uint64_t, uint64_t> places = CountPlaces();
  uint64_t live_bytes = 0;
  for (const auto& [address, bytes] : live) {
    EXPECT_EQ(places.erase(address), 1u);
    live_bytes += bytes;
  }
  EXPECT_TRUE(places.empty());
  EXPECT_EQ(live_bytes, pool().GetStats().live_bytes);
  std::map<uint32_t, uint64_t> by_thread;
  for (const HistoryEvent& event : history.events) ++by_thread[event.thread];
  EXPECT_GE(by_thread.size(), size_t{kThreads});
}

TEST_P(HistoryThreadsTest, SoItDoesWithSeveralStreams) {
  Make(1 << 18);
  std::vector<StreamHandle> streams(2);
  for (StreamHandle& stream : streams) {
    ASSERT_EQ(on_cpu_->cpu().StreamCreate(&stream, kStreamNonBlocking),
              DriverResult::kSuccess);
  }
  Run(streams);
  const History history = pool().GetHistory();
  ASSERT_EQ(history.overwritten, 0u);
  uint64_t live_bytes = 0;
  for (const auto& [address, bytes] : Replay(history).live) live_bytes += bytes;
  EXPECT_EQ(live_bytes, pool().GetStats().live_bytes);
}

TEST_P(HistoryThreadsTest, WhatIsLeftOfALongOneIsInOrder) {
  Make(256);
  Run({nullptr});
  const History history = pool().GetHistory();
  EXPECT_EQ(history.events.size(), 256u);
  EXPECT_GT(history.overwritten, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Extremes, HistoryThreadsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The history of a pool: what is recorded of which call, and that a replay of
// it ends where the pool is.

#include "firn/core/history.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/history_scene.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/fragmented_pool.h"
#include "tests/support/held_stream.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::FragmentPool;
using ::firn::testing::HeldStream;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::Replay;
using ::firn::testing::ReplayedHistory;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;
using ::firn::testing::WithoutVirtualMemory;
using ::testing::ElementsAre;

constexpr uint64_t kCapacity = 64 * kMiB;

absl::StatusOr<std::unique_ptr<PoolOnCpu>> MakePool(CpuSync sync,
                                                    uint32_t entries,
                                                    bool virtual_memory = true,
                                                    bool with_stacks = false) {
  CpuDriverOptions driver;
  driver.sync = sync;
  driver.device_bytes = 2 * kCapacity;
  driver.virtual_memory = virtual_memory;
  PoolOptions options;
  options.capacity_bytes = kCapacity;
  options.history_entries = entries;
  options.history_stacks = with_stacks;
  return PoolOnCpu::Create(driver, options);
}

uint64_t AddressOf(const void* ptr) { return reinterpret_cast<uintptr_t>(ptr); }

// Of blocks alone.
std::vector<HistoryEvent> BlockEvents(const History& history) {
  std::vector<HistoryEvent> events;
  for (const HistoryEvent& event : history.events) {
    if (event.kind <= HistoryKind::kAllocateFailure) events.push_back(event);
  }
  return events;
}

std::vector<HistoryKind> KindsOf(const std::vector<HistoryEvent>& events) {
  std::vector<HistoryKind> kinds;
  for (const HistoryEvent& event : events) kinds.push_back(event.kind);
  return kinds;
}

// Both pools, under both extremes.
struct Way {
  CpuSync sync = CpuSync::kLazy;
  bool virtual_memory = true;
};

class HistoryTest : public ::testing::TestWithParam<Way> {
 protected:
  void Make(uint32_t entries, bool with_stacks = false) {
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_, MakePool(GetParam().sync, entries, GetParam().virtual_memory,
                          with_stacks));
  }
  Pool& pool() { return on_cpu_->pool(); }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

TEST_P(HistoryTest, ThereIsNoneUnlessItIsAskedFor) {
  Make(0);
  FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr, pool().Allocate(kKiB));
  FIRN_ASSERT_OK(pool().Free(ptr));
  EXPECT_TRUE(pool().GetHistory().events.empty());
  EXPECT_EQ(pool().GetHistory().overwritten, 0u);
}

TEST_P(HistoryTest, TellsWhatCallsSaid) {
  Make(1024);
  FIRN_ASSERT_OK_AND_ASSIGN(const Tag tag, pool().RegisterTag("weights"));
  AllocateOptions options;
  options.tag = tag;
  const int64_t begin_ns = absl::GetCurrentTimeNanos();
  FIRN_ASSERT_OK_AND_ASSIGN(void* const tagged, pool().Allocate(5000, options));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const large, pool().Allocate(5 * kMiB));
  FIRN_ASSERT_OK(pool().Free(large));
  EXPECT_FALSE(pool().Allocate(10 * kCapacity).ok());
  EXPECT_FALSE(pool().Free(large).ok());  // refused: nothing has happened
  const std::vector<HistoryEvent> events = BlockEvents(pool().GetHistory());
  ASSERT_THAT(KindsOf(events),
              ElementsAre(HistoryKind::kAllocate, HistoryKind::kAllocate,
                          HistoryKind::kFree, HistoryKind::kAllocateFailure));
  EXPECT_EQ(events[0].address, AddressOf(tagged));
  EXPECT_EQ(events[0].bytes, 5000u);
  EXPECT_EQ(events[0].tag, tag);
  EXPECT_EQ(events[1].address, AddressOf(large));
  EXPECT_EQ(events[1].tag, Tag::kUntagged);
  EXPECT_EQ(events[2].address, AddressOf(large));
  EXPECT_EQ(events[2].bytes, 5 * kMiB);
  EXPECT_EQ(events[3].bytes, 10 * kCapacity);
  EXPECT_EQ(events[3].address, 0u);
  constexpr int64_t kSlackNs = 100'000'000;
  for (const HistoryEvent& event : events) {
    EXPECT_EQ(event.thread, events[0].thread);
    EXPECT_GT(event.time_ns, begin_ns - kSlackNs);
    EXPECT_LT(event.time_ns, absl::GetCurrentTimeNanos() + kSlackNs);
    EXPECT_TRUE(event.stack.empty());
  }
}

TEST_P(HistoryTest, CachesAreRecordedAsEverythingElse) {
  Make(4096);
  for (int i = 0; i < 100; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr, pool().Allocate(4 * kKiB));
    FIRN_ASSERT_OK(pool().Free(ptr));
  }
  if (GetParam().virtual_memory) {
    EXPECT_GT(pool().GetStats().cache_hits, 50u);
  }
  const History history = pool().GetHistory();
  EXPECT_EQ(BlockEvents(history).size(), 200u);
  EXPECT_TRUE(Replay(history).live.empty());
}

TEST_P(HistoryTest, AFreeThatWaitsForItsStreamsIsRequestedAndThenCompleted) {
  Make(1024);
  HeldStream held(&on_cpu_->cpu());
  AllocateOptions options;
  options.stream = held.stream();
  FIRN_ASSERT_OK_AND_ASSIGN(void* const first, pool().Allocate(3 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr,
                            pool().Allocate(5 * kMiB, options));
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(pool().Free(ptr, held.stream()));
  std::vector<HistoryEvent> events = BlockEvents(pool().GetHistory());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].stream, held.stream());
  EXPECT_EQ(events[2].kind, HistoryKind::kFreeRequested);
  EXPECT_EQ(events[2].stream, held.stream());
  EXPECT_EQ(Replay(pool().GetHistory()).pending.size(), 1u);
  held.Release();
  ASSERT_EQ(held.Wait(), DriverResult::kSuccess);
  FIRN_ASSERT_OK(pool().Trim().status());
  events = BlockEvents(pool().GetHistory());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[3].kind, HistoryKind::kFreeCompleted);
  EXPECT_EQ(events[3].address, AddressOf(ptr));
  EXPECT_EQ(events[3].bytes, 5 * kMiB);
  EXPECT_TRUE(Replay(pool().GetHistory()).pending.empty());
  FIRN_EXPECT_OK(pool().Free(first));
}

TEST_P(HistoryTest, AReplayOfRandomTrafficEndsWithWhatIsLive) {
  Make(1 << 16);
  std::vector<StreamHandle> streams = {nullptr, nullptr, nullptr};
  for (size_t i = 1; i < streams.size(); ++i) {
    ASSERT_EQ(on_cpu_->cpu().StreamCreate(&streams[i], kStreamNonBlocking),
              DriverResult::kSuccess);
  }
  std::mt19937_64 random(7);
  std::map<uint64_t, uint64_t> live;
  for (int i = 0; i < 10'000; ++i) {
    // One stream first, then several.
    AllocateOptions options;
    options.stream = streams[i < 3000 ? 0 : random() % streams.size()];
    if (random() % 2 == 0 && live.size() < 500) {
      const uint64_t bytes = random() % 8 == 0 ? 1 + random() % (5 * kMiB)
                                               : 1 + random() % (16 * kKiB);
      const absl::StatusOr<void*> ptr = pool().Allocate(bytes, options);
      if (ptr.ok()) live.emplace(AddressOf(*ptr), bytes);
    } else if (!live.empty()) {
      auto at = live.lower_bound(random());
      if (at == live.end()) at = live.begin();
      std::advance(at, static_cast<int64_t>(random() % live.size()) / 2);
      if (at == live.end()) at = live.begin();
      FIRN_ASSERT_OK(
          pool().Free(reinterpret_cast<void*>(at->first), options.stream));
      live.erase(at);
    }
    if (i % 2500 == 2499 && GetParam().virtual_memory) {
      FIRN_ASSERT_OK(pool().Compact().status());
    }
    if (i % 3000 == 2999) {
      FIRN_ASSERT_OK(pool().Trim().status());
    }
  }
  const PoolStats stats = pool().GetStats();
  const History history = pool().GetHistory();
  ASSERT_EQ(history.overwritten, 0u);
  const ReplayedHistory replayed = Replay(history);
  EXPECT_EQ(replayed.live, live);
  EXPECT_EQ(replayed.failures, stats.failed_allocations);
  uint64_t pending_bytes = 0;
  for (const auto& [address, bytes] : replayed.pending) pending_bytes += bytes;
  EXPECT_EQ(pending_bytes, stats.pending_free_bytes);
  if (GetParam().virtual_memory) {
    EXPECT_EQ(replayed.mapped.size(), stats.mapped_vgs);
  } else {
    EXPECT_EQ(replayed.mapped.size(),
              stats.handles_created - stats.handles_released);
  }
}

TEST_P(HistoryTest, OnlyTheLatestAreKeptAndTheRestIsCounted) {
  Make(64);
  for (int i = 0; i < 500; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr, pool().Allocate(4 * kKiB));
    FIRN_ASSERT_OK(pool().Free(ptr));
  }
  const History history = pool().GetHistory();
  EXPECT_EQ(history.events.size(), 64u);
  EXPECT_GE(history.overwritten, 1000u - 64);
  Replay(history);
}

TEST_P(HistoryTest, StacksLeadToTheCaller) {
  Make(1024, /*with_stacks=*/true);
  std::vector<void*> ptrs;
  for (int i = 0; i < 10; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr, pool().Allocate(4 * kKiB));
    ptrs.push_back(ptr);
  }
  for (void* const ptr : ptrs) {
    FIRN_ASSERT_OK(pool().Free(ptr));
  }
  const std::vector<HistoryEvent> events = BlockEvents(pool().GetHistory());
  ASSERT_EQ(events.size(), 20u);
  for (const HistoryEvent& event : events) EXPECT_GT(event.stack.size(), 3u);
}

TEST(HistoryKindTest, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int kind = 0; kind <= static_cast<int>(HistoryKind::kPassEnd); ++kind) {
    const absl::string_view name =
        HistoryKindName(static_cast<HistoryKind>(kind));
    EXPECT_NE(name, "unknown");
    EXPECT_TRUE(names.emplace(name).second);
  }
  EXPECT_EQ(HistoryKindName(HistoryKind::kFreeCompleted), "free_completed");
}

INSTANTIATE_TEST_SUITE_P(
    Ways, HistoryTest,
    ::testing::Values(Way{CpuSync::kLazy, true}, Way{CpuSync::kDraining, true},
                      Way{CpuSync::kLazy, false}),
    [](const ::testing::TestParamInfo<Way>& info) {
      return std::string(info.param.virtual_memory ? "" : "Fixed") +
             (info.param.sync == CpuSync::kLazy ? "Lazy" : "Draining");
    });

class HistoryOfPassesTest : public ::testing::TestWithParam<CpuSync> {};

TEST_P(HistoryOfPassesTest, GranulesThatMoveLieBetweenBeginAndEndOfThePass) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakePool(GetParam(), 1 << 16));
  Pool& pool = on_cpu->pool();
  FragmentPool(&pool, 64 * kKiB, /*keep=*/9);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool.Compact());
  ASSERT_GT(report.moves, 0u);
  uint64_t moves = 0;
  uint64_t begins = 0;
  uint64_t ends = 0;
  for (const HistoryEvent& event : pool.GetHistory().events) {
    switch (event.kind) {
      case HistoryKind::kPassBegin:
        ++begins;
        break;
      case HistoryKind::kPassEnd:
        ++ends;
        EXPECT_EQ(event.bytes, report.bytes_copied);
        break;
      case HistoryKind::kMove:
        EXPECT_NE(event.from_granule, event.to_granule);
        EXPECT_EQ(event.bytes, 2 * kMiB);
        EXPECT_EQ(event.address % (2 * kMiB), 0u);
        if (begins > ends) ++moves;
        break;
      default:
        break;
    }
  }
  EXPECT_EQ(begins, 1u);
  EXPECT_EQ(ends, 1u);
  EXPECT_EQ(moves, report.moves);
  EXPECT_EQ(Replay(pool.GetHistory()).mapped.size(),
            pool.GetStats().mapped_vgs);
}

TEST_P(HistoryOfPassesTest, BlocksOfGraphPoolsAreRecordedToo) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakePool(GetParam(), 1 << 10));
  Pool& pool = on_cpu->pool();
  FIRN_ASSERT_OK(pool.BeginPool(GraphPoolId{7}));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr, pool.Allocate(4 * kKiB));
  FIRN_ASSERT_OK(pool.Free(ptr));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const again, pool.Allocate(4 * kKiB));
  EXPECT_EQ(again, ptr);
  FIRN_ASSERT_OK(pool.Free(again));
  FIRN_ASSERT_OK(pool.EndPool(GraphPoolId{7}));
  FIRN_ASSERT_OK(pool.ReleasePool(GraphPoolId{7}));
  EXPECT_THAT(KindsOf(BlockEvents(pool.GetHistory())),
              ElementsAre(HistoryKind::kAllocate, HistoryKind::kFree,
                          HistoryKind::kAllocate, HistoryKind::kFree));
}

INSTANTIATE_TEST_SUITE_P(Extremes, HistoryOfPassesTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn

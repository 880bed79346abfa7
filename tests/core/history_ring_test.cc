// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/history_ring.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"

namespace firn {
namespace {

using ::firn::testing::kUnderThreadSanitizer;

EventRecord RecordOf(uint64_t value) {
  EventRecord record;
  record.kind = value % 2 == 0 ? HistoryKind::kAllocate : HistoryKind::kFree;
  record.tag = static_cast<Tag>(value % 256);
  record.address = value;
  record.bytes = value * 3;
  record.stream = reinterpret_cast<StreamHandle>(value * 5);
  record.from_granule = static_cast<uint32_t>(value * 7);
  record.to_granule = static_cast<uint32_t>(value * 11);
  return record;
}

// Whether all of an event is of one record.
bool IsWhole(const HistoryEvent& event) {
  const EventRecord record = RecordOf(event.address);
  return event.kind == record.kind && event.tag == record.tag &&
         event.bytes == record.bytes && event.stream == record.stream &&
         event.from_granule == record.from_granule &&
         event.to_granule == record.to_granule;
}

TEST(HistoryRingTest, KeepsWhatWasRecordedInOrder) {
  HistoryRing ring(8, /*with_stacks=*/false);
  EXPECT_TRUE(ring.Read().events.empty());
  for (uint64_t i = 0; i < 8; ++i) ring.Record(RecordOf(i));
  const History history = ring.Read();
  EXPECT_EQ(history.overwritten, 0u);
  ASSERT_EQ(history.events.size(), 8u);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(history.events[i].address, i);
    EXPECT_TRUE(IsWhole(history.events[i]));
    EXPECT_TRUE(history.events[i].stack.empty());
  }
}

TEST(HistoryRingTest, TheOldestGoFirst) {
  for (const uint32_t entries : {1u, 64u, 65u, 128u}) {
    HistoryRing ring(entries, /*with_stacks=*/false);
    for (uint64_t i = 0; i < 1000; ++i) ring.Record(RecordOf(i));
    const History history = ring.Read();
    // Rounded up.
    EXPECT_EQ(history.events.size(), entries > 64 ? 128u : 64u);
    EXPECT_EQ(history.overwritten + history.events.size(), 1000u);
    EXPECT_EQ(history.events.front().address, history.overwritten);
    EXPECT_EQ(history.events.back().address, 999u);
  }
}

TEST(HistoryRingTest, TimesAreThoseOfTheWallClock) {
  HistoryRing ring(8, /*with_stacks=*/false);
  const int64_t before_ns = absl::GetCurrentTimeNanos();
  absl::SleepFor(absl::Milliseconds(20));
  ring.Record(RecordOf(1));
  const int64_t between_ns = absl::GetCurrentTimeNanos();
  absl::SleepFor(absl::Milliseconds(20));
  ring.Record(RecordOf(2));
  const History history = ring.Read();
  ASSERT_EQ(history.events.size(), 2u);
  constexpr int64_t kSlackNs = 10'000'000;
  EXPECT_GE(history.events[0].time_ns, before_ns + 20'000'000 - kSlackNs);
  EXPECT_LE(history.events[0].time_ns, between_ns + kSlackNs);
  EXPECT_GE(history.events[1].time_ns, between_ns + 20'000'000 - kSlackNs);
}

TEST(HistoryRingTest, StacksTellCallersApart) {
  HistoryRing ring(8, /*with_stacks=*/true);
  for (uint64_t i = 0; i < 3; ++i) {
    if (i < 2) {
      ring.Record(RecordOf(i));
    } else {
      ring.Record(RecordOf(100 + i));
    }
  }
  const History history = ring.Read();
  ASSERT_EQ(history.events.size(), 3u);
  EXPECT_GT(history.events[0].stack.size(), 3u);
  EXPECT_NE(history.events[0].stack, history.events[2].stack);
}

// With so few entries writers meet those a whole round behind them.
TEST(HistoryRingTest, ReadersSeeNoTornEntryWhileThreadsWrite) {
  constexpr uint64_t kEvents = kUnderThreadSanitizer ? 2'000 : 20'000;
  constexpr uint64_t kThreads = 4;
  HistoryRing ring(1, /*with_stacks=*/false);
  std::atomic<uint64_t> done{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&ring, &done, t] {
      for (uint64_t i = 0; i < kEvents; ++i) {
        ring.Record(RecordOf(i * kThreads + t));
      }
      ++done;
    });
  }
  uint64_t torn = 0;
  uint64_t unordered = 0;
  while (done.load() < kThreads) {
    const History history = ring.Read();
    std::vector<uint64_t> last(kThreads);
    for (const HistoryEvent& event : history.events) {
      if (!IsWhole(event)) ++torn;
      uint64_t& before = last[event.address % kThreads];
      if (event.address < before) ++unordered;
      before = event.address;
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(unordered, 0u);
  const History history = ring.Read();
  EXPECT_EQ(history.events.size(), HistoryRing::kLeastEntries);
  EXPECT_EQ(history.overwritten + history.events.size(), kThreads * kEvents);
}

}  // namespace
}  // namespace firn

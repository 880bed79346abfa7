// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/driver_clock.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace firn::testing {
namespace {

void InAnotherThread(const std::function<void()>& body) {
  std::thread(body).join();
}

TEST(DriverClockTest, CallsOfOneThreadFollowEachOtherWithoutWaiting) {
  DriverClock clock;
  EXPECT_EQ(clock.now_us(), 0);
  EXPECT_EQ(clock.Charge(10).start_us, 0);
  clock.Advance(5);
  const DriverClock::Charged second = clock.Charge(20);
  EXPECT_EQ(second.start_us, 15);
  EXPECT_EQ(second.waited_us, 0);
  EXPECT_EQ(clock.now_us(), 35);
  EXPECT_EQ(clock.busy_us(), 30);
  EXPECT_EQ(clock.waited_us(), 0);
}

TEST(DriverClockTest, ACallOfAnotherThreadWaitsUntilTheLockIsFree) {
  DriverClock clock;
  clock.Charge(10);
  InAnotherThread([&] {
    EXPECT_EQ(clock.now_us(), 0);
    clock.Advance(4);
    const DriverClock::Charged charged = clock.Charge(3);
    EXPECT_EQ(charged.start_us, 10);
    EXPECT_EQ(charged.waited_us, 6);
    EXPECT_EQ(clock.now_us(), 13);
  });
  // This thread's own time has not moved; its next call waits in turn.
  EXPECT_EQ(clock.now_us(), 10);
  EXPECT_EQ(clock.Charge(1).waited_us, 3);
  EXPECT_EQ(clock.busy_us(), 14);
  EXPECT_EQ(clock.waited_us(), 9);
}

TEST(DriverClockTest, AThreadThatComesWhenTheLockIsFreeDoesNotWait) {
  DriverClock clock;
  clock.Charge(10);
  InAnotherThread([&] {
    clock.Advance(100);
    const DriverClock::Charged charged = clock.Charge(1);
    EXPECT_EQ(charged.start_us, 100);
    EXPECT_EQ(charged.waited_us, 0);
  });
  EXPECT_EQ(clock.busy_us(), 11);
}

TEST(DriverClockTest, OwnWorkDoesNotHoldTheLock) {
  DriverClock clock;
  clock.Advance(1000);
  InAnotherThread([&] { EXPECT_EQ(clock.Charge(1).waited_us, 0); });
  EXPECT_EQ(clock.busy_us(), 1);
}

TEST(DriverClockTest, AThreadThatIsWokenIsNotBeforeWhatWokeIt) {
  DriverClock clock;
  clock.AdvanceTo(50);
  EXPECT_EQ(clock.now_us(), 50);
  clock.AdvanceTo(20);
  EXPECT_EQ(clock.now_us(), 50);
  EXPECT_EQ(clock.Charge(1).start_us, 50);
}

// The system may give a new thread the id of one that has ended.
TEST(DriverClockTest, ANewThreadStartsAtZeroWhateverOthersDid) {
  DriverClock clock;
  for (int i = 0; i < 100; ++i) {
    InAnotherThread([&] {
      EXPECT_EQ(clock.now_us(), 0);
      clock.Advance(1 + i);
    });
  }
}

TEST(DriverClockTest, CallsOfSeveralThreadsTakeAsLongAsAllOfThem) {
  DriverClock clock;
  constexpr int kThreads = 4;
  constexpr int kCallsPerThread = 1000;
  std::vector<double> ends(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&clock, &end = ends[i]] {
      double waited_us = 0;
      for (int call = 0; call < kCallsPerThread; ++call) {
        waited_us += clock.Charge(2).waited_us;
      }
      end = clock.now_us();
      EXPECT_EQ(end, 2 * kCallsPerThread + waited_us);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clock.busy_us(), 2 * kThreads * kCallsPerThread);
  EXPECT_EQ(*std::max_element(ends.begin(), ends.end()), clock.busy_us());
}

}  // namespace
}  // namespace firn::testing

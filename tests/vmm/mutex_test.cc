// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/mutex.h"

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace firn::testing {
namespace {

// Far longer than any of these tests takes.
constexpr absl::Duration kLong = absl::Seconds(60);

// What the threads of these tests share.
struct Shared {
  Mutex mutex;
  CondVar changed;
  int count ABSL_GUARDED_BY(mutex) = 0;

  // From another thread, as a thread may not try a lock that it holds.
  bool TryLockElsewhere() {
    bool locked = false;
    std::thread other([this, &locked] {
      if (mutex.TryLock()) {
        locked = true;
        mutex.Unlock();
      }
    });
    other.join();
    return locked;
  }
};

TEST(MutexTest, ThreadsThatLockDoNotLoseEachOthersIncrements) {
  constexpr int kThreads = 4;
  constexpr int kIncrements = 2000;
  Shared shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&shared] {
      for (int n = 0; n < kIncrements; ++n) {
        const MutexLock lock(&shared.mutex);
        ++shared.count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(&shared.mutex);
  EXPECT_EQ(shared.count, kThreads * kIncrements);
}

TEST(MutexTest, TryLockFailsOnlyWhileAnotherThreadHoldsTheLock) {
  Shared shared;
  EXPECT_TRUE(shared.TryLockElsewhere());
  shared.mutex.Lock();
  EXPECT_FALSE(shared.TryLockElsewhere());
  shared.mutex.Unlock();
  EXPECT_TRUE(shared.TryLockElsewhere());
}

TEST(MutexTest, MutexLockHoldsTheLockForItsScope) {
  Shared shared;
  {
    const MutexLock lock(&shared.mutex);
    EXPECT_FALSE(shared.TryLockElsewhere());
  }
  EXPECT_TRUE(shared.TryLockElsewhere());
}

TEST(CondVarTest, AWaiterSeesWhatTheSignallerWrote) {
  Shared shared;
  std::thread signaller([&shared] {
    const MutexLock lock(&shared.mutex);
    shared.count = 7;
    shared.changed.Signal();
  });
  {
    const MutexLock lock(&shared.mutex);
    while (shared.count == 0) shared.changed.Wait(&shared.mutex);
    EXPECT_EQ(shared.count, 7);
    // Back from the wait, the lock is held again.
    EXPECT_FALSE(shared.TryLockElsewhere());
  }
  signaller.join();
}

TEST(CondVarTest, SignalAllWakesEveryWaiter) {
  constexpr int kWaiters = 4;
  Shared shared;
  int ready = 0;  // guarded by shared.mutex
  std::vector<std::thread> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&shared, &ready] {
      const MutexLock lock(&shared.mutex);
      ++ready;
      shared.changed.SignalAll();
      while (shared.count == 0) shared.changed.Wait(&shared.mutex);
    });
  }
  {
    const MutexLock lock(&shared.mutex);
    while (ready < kWaiters) shared.changed.Wait(&shared.mutex);
    shared.count = 1;
  }
  shared.changed.SignalAll();
  for (std::thread& waiter : waiters) waiter.join();  // hangs if one sleeps on
}

TEST(CondVarTest, AWaitWithoutSignalTimesOutAndHoldsTheLockAgain) {
  Shared shared;
  const MutexLock lock(&shared.mutex);
  const absl::Time start = absl::Now();
  // Wake-ups may be spurious, but not for ever.
  while (
      !shared.changed.WaitWithTimeout(&shared.mutex, absl::Milliseconds(20))) {
  }
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(19));
  EXPECT_FALSE(shared.TryLockElsewhere());
}

TEST(CondVarTest, AWaitForNoTimeAtAllTimesOut) {
  Shared shared;
  const MutexLock lock(&shared.mutex);
  EXPECT_TRUE(
      shared.changed.WaitWithTimeout(&shared.mutex, absl::ZeroDuration()));
  EXPECT_TRUE(
      shared.changed.WaitWithTimeout(&shared.mutex, -absl::InfiniteDuration()));
}

// Waits until `count` is set, and tells whether any wait timed out before.
bool TimesOutBeforeTheSignal(absl::Duration timeout) {
  Shared shared;
  std::thread signaller([&shared] {
    absl::SleepFor(absl::Milliseconds(20));
    const MutexLock lock(&shared.mutex);
    shared.count = 1;
    shared.changed.Signal();
  });
  bool timed_out = false;
  {
    const MutexLock lock(&shared.mutex);
    while (shared.count == 0 && !timed_out) {
      timed_out = shared.changed.WaitWithTimeout(&shared.mutex, timeout);
    }
  }
  signaller.join();
  return timed_out;
}

TEST(CondVarTest, ASignalBeforeTheTimeoutIsNoTimeout) {
  EXPECT_FALSE(TimesOutBeforeTheSignal(kLong));
}

TEST(CondVarTest, AnInfiniteTimeoutNeverPasses) {
  EXPECT_FALSE(TimesOutBeforeTheSignal(absl::InfiniteDuration()));
}

}  // namespace
}  // namespace firn::testing

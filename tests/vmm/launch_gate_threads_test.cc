// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Many threads launch while another one closes the gate over and over. What the
// gate keeps apart is kept apart by nothing else here, so that the thread
// sanitizer sees whether it does.

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/launch_gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/launch_gate_scene.h"

namespace firn::testing {
namespace {

using Scope = LaunchGate::Scope;

constexpr size_t kLaunchers = 4;

// A thread that launches on a stream of its own. On separate cache lines.
struct alignas(128) Launcher {
  StreamHandle stream = nullptr;
  DevicePtr word = 0;
  // Written inside scopes, read beneath the closed gate.
  uint64_t scopes = 0;
  uint64_t functions_launched = 0;
  uint8_t last_fill = 0;
  uint64_t scopes_while_closed = 0;
  uint64_t refused_calls = 0;
  SmallRandom random{0};
  // By the work. Atomic, as the token behind it is written and read through
  // different addresses of the same memory, which the sanitizer cannot know.
  std::atomic<uint64_t> functions_run{0};
};

class LaunchGateThreadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < kLaunchers; ++i) {
      Launcher& launcher = launchers_[i];
      launcher.random = SmallRandom(i);
      ASSERT_EQ(
          scene_.device()->StreamCreate(&launcher.stream, kStreamNonBlocking),
          DriverResult::kSuccess);
      launcher.word = scene_.AddressOf(static_cast<uint32_t>(i));
      scene_.Fill(static_cast<uint32_t>(i), 0);
    }
  }

  static void CountRun(void* launcher) {
    static_cast<Launcher*>(launcher)->functions_run.fetch_add(
        1, std::memory_order_relaxed);
  }

  // Lets some closings pass, if so wanted: the gate then closes now with nobody
  // inside, now with some, and a great many closings take no great time. Orders
  // nothing.
  void WaitForTurn(SmallRandom* random) {
    if (closings_between_scopes_ == 0) return;
    const uint64_t turn = closings_.load(std::memory_order_relaxed) +
                          random->Below(2 * closings_between_scopes_ + 1);
    while (closings_.load(std::memory_order_relaxed) < turn &&
           !stop_.load(std::memory_order_relaxed)) {
      absl::SleepFor(absl::Microseconds(20));
    }
  }

  // In turn a word that is filled, a function, and nothing.
  void LaunchUntilStopped(Launcher* launcher, bool names_stream) {
    Driver* const device = scene_.device();
    std::vector<StreamHandle> streams;
    if (names_stream) streams.push_back(launcher->stream);
    while (!stop_.load(std::memory_order_relaxed)) {
      if (launcher->scopes != 0 && launcher->random.OneIn(4)) {
        WaitForTurn(&launcher->random);
      }
      const Scope scope(&scene_.gate(), streams);
      if (closed_) ++launcher->scopes_while_closed;
      entered_.fetch_add(1, std::memory_order_relaxed);
      const uint64_t turn = launcher->scopes++ % 3;
      DriverResult result = DriverResult::kSuccess;
      if (turn == 0) {
        launcher->last_fill = static_cast<uint8_t>(launcher->scopes);
        result = device->MemsetD8Async(launcher->word, launcher->last_fill,
                                       sizeof(uint32_t), launcher->stream);
      } else if (turn == 1) {
        ++launcher->functions_launched;
        result = device->LaunchHostFunc(launcher->stream, &CountRun, launcher);
      }
      if (result != DriverResult::kSuccess) ++launcher->refused_calls;
      if (launcher->scopes == 1) ++launching_;
    }
  }

  // Waits until somebody has entered since the last closing, but not for long:
  // they may all be waiting for their turn.
  void WaitForAnEntry() {
    constexpr int kMostYields = 200;
    const uint64_t entered = entered_at_closing_;
    for (int i = 0; i < kMostYields; ++i) {
      if (entered_.load(std::memory_order_relaxed) != entered) return;
      std::this_thread::yield();
    }
  }

  // Closes and opens the gate so many times, and expects that nothing is going
  // on while it is closed.
  void CloseAndOpen(int times) {
    for (int i = 0; i < times; ++i) {
      WaitForAnEntry();
      const absl::StatusOr<LaunchGate::Closure> closure =
          scene_.gate().Close(absl::InfiniteDuration());
      FIRN_ASSERT_OK(closure);
      closed_ = true;
      entered_at_closing_ = entered_.load(std::memory_order_relaxed);
      for (const Launcher& launcher : launchers_) {
        ASSERT_EQ(launcher.functions_run.load(std::memory_order_relaxed),
                  launcher.functions_launched);
      }
      closed_ = false;
      closings_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  // Returns once all of them have launched something.
  void StartLaunchers(bool name_streams) {
    for (Launcher& launcher : launchers_) {
      threads_.emplace_back([this, &launcher, name_streams] {
        LaunchUntilStopped(&launcher, name_streams);
      });
    }
    EXPECT_TRUE(HoldsSoon([this] { return launching_ == kLaunchers; }));
  }
  void StopLaunchers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    EXPECT_EQ(scene_.device()->CtxSynchronize(), DriverResult::kSuccess);
    for (size_t i = 0; i < kLaunchers; ++i) {
      const Launcher& launcher = launchers_[i];
      EXPECT_EQ(launcher.scopes_while_closed, 0u);
      EXPECT_EQ(launcher.refused_calls, 0u);
      EXPECT_EQ(launcher.functions_run, launcher.functions_launched);
      EXPECT_EQ(scene_.Read(static_cast<uint32_t>(i))[0],
                launcher.last_fill * 0x01010101u);
    }
    EXPECT_EQ(scene_.device()->loss(), "");
  }
  // Everybody gets in, many of the times that the gate is open.
  void ExpectEverybodyGotIn(uint64_t openings) {
    for (const Launcher& launcher : launchers_) {
      EXPECT_GT(launcher.scopes, openings / 100);
    }
  }

  LaunchGateScene scene_;
  std::array<Launcher, kLaunchers> launchers_;
  // Changed by the closing thread while the gate is closed.
  bool closed_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> closings_{0};
  std::atomic<uint64_t> entered_{0};
  std::atomic<uint64_t> entered_at_closing_{0};
  uint32_t closings_between_scopes_ = 0;
  std::atomic<size_t> launching_{0};
  std::vector<std::thread> threads_;
};

TEST_F(LaunchGateThreadsTest,
       NobodyIsInsideWhileItIsClosedAHundredThousandTimes) {
  constexpr int kTimes = 100'000;
  closings_between_scopes_ = 1;
  StartLaunchers(/*name_streams=*/true);
  CloseAndOpen(kTimes);
  StopLaunchers();
  ExpectEverybodyGotIn(kTimes);
  const LaunchGateStats stats = scene_.gate().stats();
  EXPECT_EQ(stats.closings, static_cast<uint64_t>(kTimes));
  EXPECT_EQ(stats.timeouts + stats.refusals, 0u);
  // For what was launched before the gate was armed.
  EXPECT_LE(stats.device_waits, 1u);
}

TEST_F(LaunchGateThreadsTest, WorkOnUnnamedStreamsIsOverWheneverItIsClosed) {
  constexpr int kTimes = 300;
  StartLaunchers(/*name_streams=*/false);
  CloseAndOpen(kTimes);
  StopLaunchers();
  ExpectEverybodyGotIn(kTimes);
}

TEST_F(LaunchGateThreadsTest, SeveralClosersTakeTurns) {
  constexpr int kClosers = 3;
  constexpr int kTimes = 3'000;
  StartLaunchers(/*name_streams=*/true);
  std::vector<std::thread> closing;
  for (int i = 0; i < kClosers; ++i) {
    closing.emplace_back([this] { CloseAndOpen(kTimes); });
  }
  for (std::thread& thread : closing) thread.join();
  StopLaunchers();
  EXPECT_EQ(scene_.gate().stats().closings,
            static_cast<uint64_t>(kClosers) * kTimes);
}

TEST_F(LaunchGateThreadsTest, ClosersThatGiveUpLeaveNobodyWaiting) {
  StartLaunchers(/*name_streams=*/true);
  uint64_t closings = 0;
  uint64_t timeouts = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto closure = scene_.gate().Close(absl::Microseconds(i % 50));
    ++(closure.ok() ? closings : timeouts);
    if (!closure.ok()) {
      EXPECT_THAT(closure, StatusIs(absl::StatusCode::kDeadlineExceeded));
    }
  }
  StopLaunchers();
  EXPECT_EQ(scene_.gate().stats().closings, closings);
  EXPECT_EQ(scene_.gate().stats().timeouts, timeouts);
  EXPECT_GT(timeouts, 0u);
  FIRN_EXPECT_OK(scene_.gate().Close(kPatience));
}

}  // namespace
}  // namespace firn::testing

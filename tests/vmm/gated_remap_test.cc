// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Remaps beneath a closed gate, while everything else that may go on goes on:
// work in flight everywhere, streams that are destroyed and captures that begin
// between any two steps.

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/launch_gate.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/relaxed_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/launch_gate_scene.h"

namespace firn::testing {
namespace {

using Scope = LaunchGate::Scope;

constexpr uint8_t kA = 0xa1;
constexpr uint8_t kB = 0xb2;
constexpr uint8_t kTouched = 0x5a;
constexpr uint8_t kCaptured = 0xc3;

// What firn does: exchanges the granules beneath two addresses, beneath a gate.
absl::Status ExchangeBeneathGate(LaunchGateScene* scene,
                                 absl::Duration max_wait) {
  const ScopedRelaxedCapture relaxed(scene->device());
  const absl::StatusOr<LaunchGate::Closure> closure =
      scene->gate().Close(max_wait);
  if (!closure.ok()) return closure.status();
  return scene->Exchange(0, 1);
}

// --- Work in flight ---

class WorkInFlightTest : public ::testing::Test {
 protected:
  void SetUp() override {
    scene_.Fill(0, kA);
    scene_.Fill(1, kB);
  }

  // Work on a stream of `driver` that touches granule 0 is in flight, launched
  // in a scope that names `streams`.
  void ExpectIsNotRunOver(Driver* driver, bool names_stream) {
    HeldStream held(driver);
    {
      std::vector<StreamHandle> streams;
      if (names_stream) streams.push_back(held.stream());
      const Scope scope(&scene_.gate(), streams);
      ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
      ASSERT_EQ(
          held.Touch(scene_.AddressOf(0), scene_.granule_bytes(), kTouched),
          DriverResult::kSuccess);
    }
    const GranuleId first = scene_.table().granule(VgIndex(0));
    const GranuleId second = scene_.table().granule(VgIndex(1));
    const uint64_t generation = scene_.table().generation(VgIndex(0));
    EXPECT_THAT(ExchangeBeneathGate(&scene_, kMoment),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_EQ(scene_.table().granule(VgIndex(0)), first);
    EXPECT_EQ(scene_.table().generation(VgIndex(0)), generation);

    std::thread release([&] {
      absl::SleepFor(kMoment);
      held.Release();
    });
    FIRN_EXPECT_OK(ExchangeBeneathGate(&scene_, absl::InfiniteDuration()));
    release.join();
    EXPECT_EQ(scene_.table().granule(VgIndex(0)), second);
    EXPECT_EQ(held.Wait(), DriverResult::kSuccess);
    // The work came first: what it wrote has moved with its granule.
    EXPECT_EQ(scene_.Read(0), scene_.Filled(kB));
    EXPECT_EQ(scene_.Read(1), scene_.Filled(kTouched));
    for (size_t i = 0; i < scene_.device_count(); ++i) {
      EXPECT_EQ(scene_.device(i)->loss(), "");
    }
    FIRN_EXPECT_OK(scene_.table().CheckInvariants());
  }

  LaunchGateScene scene_;
};

TEST_F(WorkInFlightTest, OnANamedStreamIsNotRunOver) {
  scene_.gate().Arm();
  ExpectIsNotRunOver(scene_.device(), /*names_stream=*/true);
}

TEST_F(WorkInFlightTest, OnANamedStreamBeforeArmingIsNotRunOver) {
  ExpectIsNotRunOver(scene_.device(), /*names_stream=*/true);
}

TEST_F(WorkInFlightTest, OnAnUnnamedStreamIsNotRunOver) {
  scene_.gate().Arm();
  ExpectIsNotRunOver(scene_.device(), /*names_stream=*/false);
}

TEST_F(WorkInFlightTest, OnAPeersStreamIsNotRunOver) {
  if (scene_.device_count() < 2) GTEST_SKIP() << "there is one device";
  scene_.gate().Arm();
  ExpectIsNotRunOver(scene_.device(1), /*names_stream=*/true);
}

TEST_F(WorkInFlightTest, OnAPeersUnnamedStreamIsNotRunOver) {
  if (scene_.device_count() < 2) GTEST_SKIP() << "there is one device";
  scene_.gate().Arm();
  ExpectIsNotRunOver(scene_.device(1), /*names_stream=*/false);
}

TEST_F(WorkInFlightTest, InASecondContextIsNotRunOver) {
  const std::unique_ptr<Driver> context = scene_.SecondContext();
  if (context == nullptr) GTEST_SKIP() << "there is one context";
  ExpectIsNotRunOver(context.get(), /*names_stream=*/true);
  scene_.gate().Arm();
  scene_.Fill(0, kA);
  scene_.Fill(1, kB);
  ExpectIsNotRunOver(context.get(), /*names_stream=*/true);
}

// --- Between any two steps ---

// Does what it is told, one thing after the other, on a thread of its own.
class Assistant {
 public:
  Assistant() : thread_([this] { Run(); }) {}
  ~Assistant() {
    Finish();
    {
      const MutexLock lock(&mutex_);
      ending_ = true;
      changed_.SignalAll();
    }
    thread_.join();
  }

  // Returns at once.
  void Begin(std::function<void()> task) {
    Finish();
    const MutexLock lock(&mutex_);
    task_ = std::move(task);
    changed_.SignalAll();
  }
  // Waits until nothing is left to do.
  void Finish() {
    const MutexLock lock(&mutex_);
    while (task_) changed_.Wait(&mutex_);
  }
  void Do(std::function<void()> task) {
    Begin(std::move(task));
    Finish();
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> task;
      {
        const MutexLock lock(&mutex_);
        while (!task_ && !ending_) changed_.Wait(&mutex_);
        if (!task_) return;
        task = task_;
      }
      task();
      const MutexLock lock(&mutex_);
      task_ = nullptr;
      changed_.SignalAll();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::function<void()> task_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// An armed gate, and a stream with a token that another thread works with: one
// remap for each of its steps, before which something happens on that thread.
class BetweenStepsTest : public ::testing::Test {
 protected:
  void SetUp() override { MakeStream(); }

  void MakeStream() {
    ASSERT_EQ(scene_.device()->StreamCreate(&stream_, kStreamNonBlocking),
              DriverResult::kSuccess);
  }
  // Launches on the stream in a scope, so that there is something to drain.
  void Launch() {
    const Scope scope(&scene_.gate(), {stream_});
    ASSERT_EQ(scene_.device()->MemsetD8Async(scene_.AddressOf(0), kA,
                                             scene_.granule_bytes(), stream_),
              DriverResult::kSuccess);
  }

  // Calls `before` and then remaps, during which `event` happens before the
  // n-th driver call of the remapping thread, then `after`: for n = 0, 1 and so
  // on, until a remap has made no n-th call. The work launched by `before` is
  // done by then; then again, for the first few calls, while it may be running,
  // when there is no knowing how often it is asked about.
  void ForEachStep(const std::function<void()>& before,
                   const std::function<void()>& event,
                   const std::function<void()>& after) {
    scene_.gate().Arm();
    // More than a remap of two granules can be taken for.
    constexpr uint64_t kMostSteps = 100;
    uint64_t steps = 0;
    while (HappensAtStep(steps, /*in_flight=*/false, before, event, after)) {
      ++steps;
      ASSERT_LT(steps, kMostSteps);
      ASSERT_FALSE(HasFatalFailure());
    }
    // An unmap, two maps and their access, at the least.
    EXPECT_GE(steps, 4u);
    for (uint64_t step = 0; step < steps && !HasFatalFailure(); ++step) {
      (void)HappensAtStep(step, /*in_flight=*/true, before, event, after);
    }
    EXPECT_EQ(scene_.gate().stats().device_waits, 0u);
  }
  // One such remap; whether it made that call. If not, `event` happens after
  // it: the gate is open again.
  bool HappensAtStep(uint64_t step, bool in_flight,
                     const std::function<void()>& before,
                     const std::function<void()>& event,
                     const std::function<void()>& after) {
    SCOPED_TRACE(step);
    before();
    if (!in_flight) {
      EXPECT_EQ(scene_.device()->StreamSynchronize(stream_),
                DriverResult::kSuccess);
    }
    scene_.Fill(1, kB);
    bool happened = false;
    uint64_t calls = 0;
    scene_.watched().WatchThisThread([&] {
      if (calls++ != step) return;
      happened = true;
      event();
    });
    FIRN_EXPECT_OK(ExchangeBeneathGate(&scene_, kPatience));
    scene_.watched().StopWatching();
    if (!happened) event();
    after();
    EXPECT_EQ(scene_.device()->loss(), "");
    FIRN_EXPECT_OK(scene_.table().CheckInvariants());
    return happened;
  }

  // Captures a fill of granule 3, whose graph then is launched. Begun and ended
  // on the assistant's thread.
  void BeginCapture(CaptureMode mode) {
    ASSERT_EQ(scene_.device()->StreamBeginCapture(stream_, mode),
              DriverResult::kSuccess);
  }
  void EndCapture() {
    graph_ = nullptr;
    ASSERT_EQ(scene_.device()->MemsetD8Async(scene_.AddressOf(3), kCaptured,
                                             scene_.granule_bytes(), stream_),
              DriverResult::kSuccess);
    ASSERT_EQ(scene_.device()->StreamEndCapture(stream_, &graph_),
              DriverResult::kSuccess);
    ASSERT_NE(graph_, nullptr);
  }
  void LaunchGraph() {
    ASSERT_NE(graph_, nullptr);
    scene_.Fill(3, 0);
    GraphExecHandle exec = nullptr;
    ASSERT_EQ(scene_.device()->GraphInstantiate(&exec, graph_, 0),
              DriverResult::kSuccess);
    {
      const Scope scope(&scene_.gate(), {stream_});
      ASSERT_EQ(scene_.device()->GraphLaunch(exec, stream_),
                DriverResult::kSuccess);
    }
    ASSERT_EQ(scene_.device()->StreamSynchronize(stream_),
              DriverResult::kSuccess);
    EXPECT_EQ(scene_.Read(3), scene_.Filled(kCaptured));
    EXPECT_EQ(scene_.device()->GraphExecDestroy(exec), DriverResult::kSuccess);
    EXPECT_EQ(scene_.device()->GraphDestroy(graph_), DriverResult::kSuccess);
  }
  void ExpectExchanged() {
    EXPECT_EQ(scene_.Read(0), scene_.Filled(kB));
    EXPECT_EQ(scene_.Read(1), scene_.Filled(kA));
  }

  LaunchGateScene scene_;
  StreamHandle stream_ = nullptr;
  GraphHandle graph_ = nullptr;
  Assistant assistant_;
};

TEST_F(BetweenStepsTest, ANamedStreamIsDestroyed) {
  ForEachStep([&] { Launch(); },
              [&] {
                assistant_.Do([&] {
                  EXPECT_EQ(scene_.device()->StreamDestroy(stream_),
                            DriverResult::kSuccess);
                });
              },
              [&] {
                ExpectExchanged();
                MakeStream();
              });
}

// Against the protocol, and still nothing breaks: nothing of the gate's or the
// remap's is forbidden by it.
TEST_F(BetweenStepsTest, AGlobalCaptureIsBegunOutsideOfScopes) {
  ForEachStep(
      [&] { Launch(); },
      [&] { assistant_.Do([&] { BeginCapture(CaptureMode::kGlobal); }); },
      [&] {
        assistant_.Do([&] { EndCapture(); });
        ExpectExchanged();
        LaunchGraph();
      });
}

TEST_F(BetweenStepsTest, AGlobalCaptureIsBegunOnAnUnknownStream) {
  StreamHandle unknown = nullptr;
  ForEachStep(
      [&] {
        Launch();
        ASSERT_EQ(scene_.device()->StreamCreate(&unknown, kStreamNonBlocking),
                  DriverResult::kSuccess);
      },
      [&] {
        std::swap(unknown, stream_);
        assistant_.Do([&] { BeginCapture(CaptureMode::kGlobal); });
      },
      [&] {
        assistant_.Do([&] { EndCapture(); });
        ExpectExchanged();
        LaunchGraph();
        std::swap(unknown, stream_);
        EXPECT_EQ(scene_.device()->StreamDestroy(unknown),
                  DriverResult::kSuccess);
      });
}

TEST_F(BetweenStepsTest, ACaptureIsMadeInsideAScope) {
  ForEachStep([&] { Launch(); },
              [&] {
                // Is kept out for as long as the gate is not open.
                assistant_.Begin([&] {
                  const Scope scope(&scene_.gate(), {stream_});
                  BeginCapture(CaptureMode::kGlobal);
                  EndCapture();
                });
              },
              [&] {
                assistant_.Finish();
                ExpectExchanged();
                LaunchGraph();
              });
}

}  // namespace
}  // namespace firn::testing

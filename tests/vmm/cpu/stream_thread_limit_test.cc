// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Work is refused while the system starts no more threads.

#include <pthread.h>

#include <cstddef>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "firn/vmm/cpu/stream_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/stream_scene.h"

namespace firn::cpu_testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr DriverResult kOutOfMemory = DriverResult::kOutOfMemory;

// While it lives, threads get stacks larger than any address space.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 50);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
  }
  ~NoMoreThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

  // Not so where a tool starts the threads with a stack of its own.
  static bool Works() {
    const NoMoreThreads none;
    try {
      std::thread([] {}).join();
    } catch (const std::system_error&) {
      return true;
    }
    return false;
  }

 private:
  pthread_attr_t before_;
};

class ThreadLimitTest : public StreamScene {
 protected:
  explicit ThreadLimitTest(const cpu::StreamSetOptions& options = {})
      : StreamScene(options) {}
  void SetUp() override {
    if (!NoMoreThreads::Works()) {
      GTEST_SKIP() << "threads start here however large their stacks are";
    }
  }
  GraphExecHandle CaptureWaitForFlag(StreamHandle stream) {
    EXPECT_EQ(streams_.BeginCapture(0, stream, CaptureMode::kRelaxed).result,
              kOk);
    Log(stream, "before");
    WaitForFlag(stream);
    GraphHandle graph = nullptr;
    EXPECT_EQ(streams_.EndCapture(0, stream, &graph).result, kOk);
    GraphExecHandle exec = nullptr;
    EXPECT_EQ(streams_.GraphInstantiate(&exec, graph, 0).result, kOk);
    return exec;
  }
};

TEST_F(ThreadLimitTest, WorkThatNeedsAThreadIsRefusedAndLeavesNoTrace) {
  const StreamHandle stream = NewStream();
  // Calls the streams when it goes: that would hang with the lock held.
  struct CallsWhenDestroyed {
    cpu::StreamSet* streams;
    ~CallsWhenDestroyed() { streams->IsIdle(); }
  };
  auto caller = std::make_shared<CallsWhenDestroyed>();
  caller->streams = &streams_;
  cpu::StreamWork work =
      Work([caller = std::move(caller)](const cpu::WorkOrder&) {
        ADD_FAILURE() << "refused work ran";
      });
  {
    const NoMoreThreads none;
    const cpu::Verdict verdict = streams_.Enqueue(0, stream, std::move(work));
    EXPECT_EQ(verdict.result, kOutOfMemory);
    EXPECT_NE(verdict.rule, nullptr);
  }
  EXPECT_TRUE(streams_.IsIdle());
  EXPECT_EQ(streams_.Query(0, stream).result, kOk);
  Log(stream, "later");
  Synchronize(stream);
  EXPECT_THAT(LogSoFar(), ElementsAre("later"));
}

TEST_F(ThreadLimitTest, AStreamThatHasAThreadGoesOn) {
  const StreamHandle stream = NewStream();
  Log(stream, "first");
  Synchronize(stream);
  const NoMoreThreads none;
  Log(stream, "second");
  Synchronize(stream);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "second"));
}

TEST_F(ThreadLimitTest, WaitsAndRecordsThatNeedAThreadAreRefusedToo) {
  const StreamHandle held_up = NewStream();
  const StreamHandle stream = NewStream();
  const StreamHandle blocking = NewStream(kStreamDefault);
  const EventHandle event = NewEvent();
  const EventHandle recorded = NewEvent();
  HoldUp(held_up);
  Record(event, held_up);
  Record(recorded, held_up);
  HoldUp(nullptr);
  {
    const NoMoreThreads none;
    EXPECT_EQ(streams_.WaitEvent(0, stream, event, 0).result, kOutOfMemory);
    // It would wait for the legacy stream.
    EXPECT_EQ(streams_.EventRecord(0, recorded, blocking).result, kOutOfMemory);
  }
  // The last record holds.
  EXPECT_EQ(streams_.EventQuery(recorded).result, kNotReady);
  EXPECT_EQ(streams_.Query(0, stream).result, kOk);
}

// Ghost storage: threads are for what has to wait.
class InlineThreadLimitTest : public ThreadLimitTest {
 protected:
  InlineThreadLimitTest() : ThreadLimitTest(Options()) {}
  static cpu::StreamSetOptions Options() {
    cpu::StreamSetOptions options;
    options.inline_when_idle = true;
    return options;
  }
};

TEST_F(InlineThreadLimitTest, WorkThatNeedsNoThreadIsNotRefused) {
  const NoMoreThreads none;
  Log(NewStream(), "inline");
  EXPECT_THAT(LogSoFar(), ElementsAre("inline"));
}

TEST_F(InlineThreadLimitTest, AGraphIsLaunchedAsAWholeOrNotAtAll) {
  const StreamHandle stream = NewStream();
  const StreamHandle other = NewStream();
  const GraphExecHandle exec = CaptureWaitForFlag(stream);
  {
    const NoMoreThreads none;
    EXPECT_EQ(streams_.GraphLaunch(0, exec, stream).result, kOutOfMemory);
  }
  EXPECT_THAT(LogSoFar(), IsEmpty());
  EXPECT_TRUE(streams_.IsIdle());
  flag_.store(true);
  EXPECT_EQ(streams_.GraphLaunch(0, exec, stream).result, kOk);
  AwaitUnseen(stream);
  {
    // A wait for the last launch is all that is left of this one.
    const NoMoreThreads none;
    EXPECT_EQ(streams_.GraphLaunch(0, exec, other).result, kOutOfMemory);
    Synchronize(other);
  }
  EXPECT_THAT(LogSoFar(), ElementsAre("before"));
}

}  // namespace
}  // namespace firn::cpu_testing

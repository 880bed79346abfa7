// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Work that takes no time is run by the thread that queues it.

#include <string>
#include <thread>
#include <vector>

#include "firn/vmm/cpu/stream_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/stream_scene.h"

namespace firn::cpu_testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StreamInlineTest : public StreamScene {
 protected:
  StreamInlineTest() : StreamScene(Options()) {}
  static cpu::StreamSetOptions Options() {
    cpu::StreamSetOptions options;
    options.inline_when_idle = true;
    return options;
  }
};

TEST_F(StreamInlineTest, WorkOnAnIdleStreamIsRunByTheCallerAtOnce) {
  const StreamHandle stream = NewStream();
  std::thread::id ran_on;
  ASSERT_EQ(Enqueue(stream, [&] { ran_on = std::this_thread::get_id(); }), kOk);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_EQ(streams_.Query(0, stream).result, kOk);
  EXPECT_TRUE(streams_.IsIdle());
}

TEST_F(StreamInlineTest, HostFunctionsAreNot) {
  // The caller may hold a lock that its host function takes.
  struct Seen {
    bool inside = false;
    std::thread::id ran_on;
  } seen;
  const StreamHandle stream = NewStream();
  ASSERT_EQ(streams_
                .EnqueueHostFunction(
                    0, stream,
                    [](void* data) {
                      Seen* const now = static_cast<Seen*>(data);
                      now->inside = cpu::StreamSet::InHostFunction();
                      now->ran_on = std::this_thread::get_id();
                    },
                    &seen)
                .result,
            kOk);
  Synchronize(stream);
  EXPECT_TRUE(seen.inside);
  EXPECT_NE(seen.ran_on, std::this_thread::get_id());
  EXPECT_FALSE(cpu::StreamSet::InHostFunction());
  // The stream is idle again.
  std::thread::id ran_on;
  ASSERT_EQ(Enqueue(stream, [&] { ran_on = std::this_thread::get_id(); }), kOk);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_F(StreamInlineTest, HostFunctionsOfGraphsAreNotEither) {
  const StreamHandle stream = NewStream();
  std::thread::id ran_on;
  ASSERT_EQ(streams_.BeginCapture(0, stream, CaptureMode::kRelaxed).result,
            kOk);
  ASSERT_EQ(streams_
                .EnqueueHostFunction(
                    0, stream,
                    [](void* data) {
                      *static_cast<std::thread::id*>(data) =
                          std::this_thread::get_id();
                    },
                    &ran_on)
                .result,
            kOk);
  GraphHandle graph = nullptr;
  ASSERT_EQ(streams_.EndCapture(0, stream, &graph).result, kOk);
  GraphExecHandle exec = nullptr;
  ASSERT_EQ(streams_.GraphInstantiate(&exec, graph, 0).result, kOk);
  ASSERT_EQ(streams_.GraphLaunch(0, exec, stream).result, kOk);
  Synchronize(stream);
  EXPECT_NE(ran_on, std::thread::id());
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST_F(StreamInlineTest, WorkBehindAHostFunctionWaitsInTheQueue) {
  const StreamHandle stream = NewStream();
  ASSERT_EQ(
      streams_
          .EnqueueHostFunction(
              0, stream, [](void* data) { static_cast<Gate*>(data)->Pass(); },
              &gate_)
          .result,
      kOk);
  Log(stream, "after");
  EXPECT_THAT(LogSoFar(), IsEmpty());
  gate_.Open();
  Synchronize(stream);
  EXPECT_THAT(LogSoFar(), ElementsAre("after"));
}

TEST_F(StreamInlineTest, WorkBehindAConditionWaitsInTheQueue) {
  const StreamHandle stream = NewStream();
  WaitForFlag(stream);
  Log(stream, "after");
  EXPECT_THAT(LogSoFar(), IsEmpty());
  EXPECT_EQ(streams_.Query(0, stream).result, kNotReady);
  flag_.store(true);
  Synchronize(stream);
  EXPECT_THAT(LogSoFar(), ElementsAre("after"));
  // The stream is idle again.
  std::thread::id ran_on;
  ASSERT_EQ(Enqueue(stream, [&] { ran_on = std::this_thread::get_id(); }), kOk);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_F(StreamInlineTest, WorkBehindAnotherStreamWaitsInTheQueue) {
  const StreamHandle stream = NewStream();
  const StreamHandle other = NewStream();
  const EventHandle event = NewEvent();
  WaitForFlag(stream);
  Record(event, stream);
  Wait(other, event);
  Log(other, "after");
  EXPECT_THAT(LogSoFar(), IsEmpty());
  flag_.store(true);
  Synchronize(other);
  EXPECT_THAT(LogSoFar(), ElementsAre("after"));
}

TEST_F(StreamInlineTest, WorkBehindTheLegacyStreamWaitsInTheQueue) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  WaitForFlag(nullptr);
  Log(blocking, "after");
  EXPECT_THAT(LogSoFar(), IsEmpty());
  flag_.store(true);
  Synchronize(blocking);
  EXPECT_THAT(LogSoFar(), ElementsAre("after"));
}

TEST_F(StreamInlineTest, WorkThatQueuesWorkOnItsStreamLeavesItIdle) {
  const StreamHandle stream = NewStream();
  ASSERT_EQ(Enqueue(stream,
                    [&] {
                      Log(stream, "inner");
                      MutexLock lock(&mutex_);
                      log_.push_back("outer");
                    }),
            kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("outer", "inner"));
  EXPECT_TRUE(streams_.IsIdle());
}

TEST_F(StreamInlineTest, AStreamMayBeDestroyedByItsOwnWork) {
  const StreamHandle stream = NewStream();
  ASSERT_EQ(
      Enqueue(stream, [&] { EXPECT_EQ(streams_.Destroy(stream).result, kOk); }),
      kOk);
  EXPECT_EQ(streams_.CheckStream(0, stream).result,
            DriverResult::kInvalidHandle);
  EXPECT_TRUE(streams_.IsIdle());
}

TEST_F(StreamInlineTest, ThreadsThatShareAStreamKeepItsOrder) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 500;
  const StreamHandle stream = NewStream();
  // Not atomic: ordered by the stream alone.
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_EQ(Enqueue(stream, [&] { ++count; }), kOk);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Synchronize(stream);
  EXPECT_EQ(count, kThreads * kRounds);
}

}  // namespace
}  // namespace firn::cpu_testing

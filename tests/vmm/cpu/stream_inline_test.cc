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

TEST_F(StreamInlineTest, HostFunctionsAreToo) {
  bool inside = false;
  ASSERT_EQ(streams_
                .EnqueueHostFunction(
                    0, nullptr,
                    [](void* data) {
                      *static_cast<bool*>(data) =
                          cpu::StreamSet::InHostFunction();
                    },
                    &inside)
                .result,
            kOk);
  EXPECT_TRUE(inside);
  EXPECT_FALSE(cpu::StreamSet::InHostFunction());
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

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/stream_set.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "firn/vmm/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

using ::testing::ElementsAre;

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kNotReady = DriverResult::kNotReady;

// Holds work up until opened.
class Barrier {
 public:
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    opened_.SignalAll();
  }
  void Pass() {
    MutexLock lock(&mutex_);
    while (!open_) opened_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar opened_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

// Streams whose work writes its name into a log, after passing a barrier where
// one is given.
class StreamSetTest : public ::testing::Test {
 protected:
  ~StreamSetTest() override { barrier_.Open(); }

  StreamHandle NewStream(uint32_t flags = kStreamNonBlocking) {
    StreamHandle stream = nullptr;
    EXPECT_EQ(streams_.Create(&stream, flags), kOk);
    return stream;
  }
  EventHandle NewEvent() {
    EventHandle event = nullptr;
    EXPECT_EQ(streams_.EventCreate(&event, kEventDisableTiming), kOk);
    return event;
  }
  void Log(StreamHandle stream, std::string name) {
    EXPECT_EQ(streams_.Enqueue(stream,
                               [this, name = std::move(name)] {
                                 MutexLock lock(&mutex_);
                                 log_.push_back(name);
                               }),
              kOk);
  }
  void HoldUp(StreamHandle stream) {
    EXPECT_EQ(streams_.Enqueue(stream, [this] { barrier_.Pass(); }), kOk);
  }
  std::vector<std::string> LogSoFar() {
    MutexLock lock(&mutex_);
    return log_;
  }

  Barrier barrier_;
  Mutex mutex_;
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  cpu::StreamSet streams_;
};

TEST_F(StreamSetTest, WorkOfAStreamRunsInOrder) {
  const StreamHandle stream = NewStream();
  for (const char* name : {"a", "b", "c", "d"}) Log(stream, name);
  EXPECT_EQ(streams_.Synchronize(stream), kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("a", "b", "c", "d"));
}

TEST_F(StreamSetTest, StreamsRunIndependently) {
  const StreamHandle held_up = NewStream();
  const StreamHandle other = NewStream();
  HoldUp(held_up);
  Log(other, "other");
  EXPECT_EQ(streams_.Synchronize(other), kOk);
  EXPECT_EQ(streams_.Query(other), kOk);
  EXPECT_EQ(streams_.Query(held_up), kNotReady);
  EXPECT_FALSE(streams_.IsIdle());
  barrier_.Open();
  EXPECT_EQ(streams_.Synchronize(held_up), kOk);
  EXPECT_EQ(streams_.Query(held_up), kOk);
  EXPECT_TRUE(streams_.IsIdle());
}

TEST_F(StreamSetTest, AnEventIsReadyWhenTheWorkBeforeItIsDone) {
  const StreamHandle stream = NewStream();
  const EventHandle event = NewEvent();
  EXPECT_EQ(streams_.EventQuery(event), kOk);
  HoldUp(stream);
  EXPECT_EQ(streams_.EventRecord(event, stream), kOk);
  EXPECT_EQ(streams_.EventQuery(event), kNotReady);
  barrier_.Open();
  EXPECT_EQ(streams_.EventSynchronize(event), kOk);
  EXPECT_EQ(streams_.EventQuery(event), kOk);
}

TEST_F(StreamSetTest, AnEventDoesNotWaitForWorkQueuedAfterIt) {
  const StreamHandle stream = NewStream();
  const EventHandle event = NewEvent();
  Log(stream, "before");
  EXPECT_EQ(streams_.EventRecord(event, stream), kOk);
  HoldUp(stream);
  EXPECT_EQ(streams_.EventSynchronize(event), kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("before"));
  EXPECT_EQ(streams_.Query(stream), kNotReady);
}

TEST_F(StreamSetTest, AStreamWaitsForAnEvent) {
  const StreamHandle first = NewStream();
  const StreamHandle second = NewStream();
  const EventHandle event = NewEvent();
  HoldUp(first);
  Log(first, "first");
  EXPECT_EQ(streams_.EventRecord(event, first), kOk);
  EXPECT_EQ(streams_.WaitEvent(second, event, 0), kOk);
  Log(second, "second");
  EXPECT_EQ(streams_.Query(second), kNotReady);
  barrier_.Open();
  EXPECT_EQ(streams_.Synchronize(second), kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "second"));
}

TEST_F(StreamSetTest, AWaitMeansTheRecordThatWasLastWhenItWasQueued) {
  const StreamHandle first = NewStream();
  const StreamHandle second = NewStream();
  const EventHandle event = NewEvent();
  Log(first, "first");
  EXPECT_EQ(streams_.EventRecord(event, first), kOk);
  EXPECT_EQ(streams_.WaitEvent(second, event, 0), kOk);
  HoldUp(first);
  EXPECT_EQ(streams_.EventRecord(event, first), kOk);
  Log(second, "second");
  // Does not wait for what was recorded later.
  EXPECT_EQ(streams_.Synchronize(second), kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "second"));
  EXPECT_EQ(streams_.EventQuery(event), kNotReady);
}

TEST_F(StreamSetTest, WaitingForAnEventNeverRecordedIsNoWait) {
  const StreamHandle stream = NewStream();
  EXPECT_EQ(streams_.WaitEvent(stream, NewEvent(), 0), kOk);
  EXPECT_EQ(streams_.Query(stream), kOk);
}

TEST_F(StreamSetTest, AnEventMayBeDestroyedWhileAStreamWaitsForIt) {
  const StreamHandle first = NewStream();
  const StreamHandle second = NewStream();
  const EventHandle event = NewEvent();
  HoldUp(first);
  Log(first, "first");
  EXPECT_EQ(streams_.EventRecord(event, first), kOk);
  EXPECT_EQ(streams_.WaitEvent(second, event, 0), kOk);
  EXPECT_EQ(streams_.EventDestroy(event), kOk);
  Log(second, "second");
  barrier_.Open();
  EXPECT_EQ(streams_.Synchronize(second), kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "second"));
}

TEST_F(StreamSetTest, TheLegacyStreamWaitsForBlockingStreams) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  HoldUp(blocking);
  Log(blocking, "blocking");
  Log(nullptr, "legacy");
  EXPECT_EQ(streams_.Query(nullptr), kNotReady);
  barrier_.Open();
  EXPECT_EQ(streams_.Synchronize(nullptr), kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("blocking", "legacy"));
}

TEST_F(StreamSetTest, BlockingStreamsWaitForTheLegacyStream) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  HoldUp(nullptr);
  Log(nullptr, "legacy");
  Log(blocking, "blocking");
  EXPECT_EQ(streams_.Query(blocking), kNotReady);
  barrier_.Open();
  EXPECT_EQ(streams_.Synchronize(blocking), kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("legacy", "blocking"));
}

TEST_F(StreamSetTest, TheLegacyStreamOrdersBlockingStreamsAmongThemselves) {
  const StreamHandle first = NewStream(kStreamDefault);
  const StreamHandle second = NewStream(kStreamDefault);
  HoldUp(first);
  Log(first, "first");
  Log(nullptr, "legacy");
  Log(second, "second");
  barrier_.Open();
  EXPECT_EQ(streams_.Synchronize(second), kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "legacy", "second"));
}

TEST_F(StreamSetTest, NonBlockingStreamsIgnoreTheLegacyStream) {
  const StreamHandle stream = NewStream(kStreamNonBlocking);
  HoldUp(nullptr);
  Log(stream, "free");
  EXPECT_EQ(streams_.Synchronize(stream), kOk);
  EXPECT_EQ(streams_.Query(nullptr), kNotReady);

  const StreamHandle held_up = NewStream(kStreamNonBlocking);
  HoldUp(held_up);
  EXPECT_THAT(LogSoFar(), ElementsAre("free"));
}

TEST_F(StreamSetTest, TheLegacyStreamIgnoresNonBlockingStreams) {
  const StreamHandle held_up = NewStream(kStreamNonBlocking);
  HoldUp(held_up);
  Log(nullptr, "legacy");
  EXPECT_EQ(streams_.Synchronize(nullptr), kOk);
  EXPECT_EQ(streams_.Query(held_up), kNotReady);
}

TEST_F(StreamSetTest, AnEventOfTheLegacyStreamCoversBlockingStreams) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  const EventHandle event = NewEvent();
  HoldUp(blocking);
  EXPECT_EQ(streams_.EventRecord(event, nullptr), kOk);
  EXPECT_EQ(streams_.EventQuery(event), kNotReady);
  barrier_.Open();
  EXPECT_EQ(streams_.EventSynchronize(event), kOk);
  EXPECT_EQ(streams_.Query(blocking), kOk);
}

TEST_F(StreamSetTest, DestroyReturnsAtOnceAndQueuedWorkCompletes) {
  const StreamHandle stream = NewStream(kStreamDefault);
  const EventHandle event = NewEvent();
  HoldUp(stream);
  Log(stream, "last");
  EXPECT_EQ(streams_.EventRecord(event, stream), kOk);
  EXPECT_EQ(streams_.Destroy(stream), kOk);
  EXPECT_FALSE(streams_.Contains(stream));
  EXPECT_EQ(streams_.Enqueue(stream, [] {}), DriverResult::kInvalidHandle);
  EXPECT_EQ(streams_.EventQuery(event), kNotReady);
  // The legacy stream still comes after it.
  Log(nullptr, "legacy");
  barrier_.Open();
  streams_.SynchronizeAll();
  EXPECT_EQ(streams_.EventQuery(event), kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("last", "legacy"));
}

TEST_F(StreamSetTest, SynchronizeAllWaitsForEveryStream) {
  std::atomic<int> done{0};
  for (int i = 0; i < 5; ++i) {
    const StreamHandle stream = NewStream(i % 2 == 0 ? 0 : 1);
    for (int j = 0; j < 20; ++j) {
      EXPECT_EQ(streams_.Enqueue(stream, [&] { ++done; }), kOk);
    }
  }
  streams_.SynchronizeAll();
  EXPECT_EQ(done, 100);
}

TEST_F(StreamSetTest, IdsAndHandlesAreNeverUsedAgain) {
  cpu::StreamSet others;
  std::set<uint64_t> ids;
  std::set<StreamHandle> handles;
  for (int i = 0; i < 50; ++i) {
    cpu::StreamSet& set = i % 2 == 0 ? streams_ : others;
    StreamHandle stream = nullptr;
    uint64_t id = 0;
    ASSERT_EQ(set.Create(&stream, kStreamDefault), kOk);
    ASSERT_EQ(set.GetId(stream, &id), kOk);
    ASSERT_EQ(set.Enqueue(stream, [] {}), kOk);
    ASSERT_EQ(set.Destroy(stream), kOk);
    ids.insert(id);
    handles.insert(stream);
  }
  for (cpu::StreamSet* set : {&streams_, &others}) {
    uint64_t id = 0;
    ASSERT_EQ(set->GetId(nullptr, &id), kOk);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 52u);
  EXPECT_EQ(handles.size(), 50u);
}

TEST_F(StreamSetTest, NoStreamIsCapturing) {
  CaptureStatus status = CaptureStatus::kActive;
  EXPECT_EQ(streams_.IsCapturing(NewStream(), &status), kOk);
  EXPECT_EQ(status, CaptureStatus::kNone);
}

// Streams that wait for each other's events all over; every wait must hold.
TEST_F(StreamSetTest, ManyThreadsKeepTheOrderThatEventsMake) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::atomic<int> violations{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const StreamHandle a = NewStream(t % 2 == 0 ? 0 : kStreamNonBlocking);
      const StreamHandle b = NewStream(t % 2 == 0 ? 0 : kStreamNonBlocking);
      const EventHandle event = NewEvent();
      // Not atomic: ordered by the events alone.
      int turn = 0;
      for (int i = 0; i < kRounds; ++i) {
        const StreamHandle stream = i % 2 == 0 ? a : b;
        EXPECT_EQ(streams_.WaitEvent(stream, event, 0), kOk);
        EXPECT_EQ(streams_.Enqueue(stream,
                                   [&, i] {
                                     if (turn++ != i) ++violations;
                                   }),
                  kOk);
        EXPECT_EQ(streams_.EventRecord(event, stream), kOk);
        if (i % 50 == 0) {
          EXPECT_EQ(streams_.Enqueue(nullptr, [] {}), kOk);
        }
      }
      EXPECT_EQ(streams_.EventSynchronize(event), kOk);
      EXPECT_EQ(turn, kRounds);
      EXPECT_EQ(streams_.Destroy(a), kOk);
      EXPECT_EQ(streams_.Destroy(b), kOk);
      EXPECT_EQ(streams_.EventDestroy(event), kOk);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(violations, 0);
}

}  // namespace
}  // namespace firn::cpu_testing

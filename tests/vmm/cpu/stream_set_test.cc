// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/stream_set.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/stream_scene.h"

namespace firn::cpu_testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr DriverResult kBadHandle = DriverResult::kInvalidHandle;

class StreamSetTest : public StreamScene {};

TEST_F(StreamSetTest, WorkOfAStreamRunsInOrder) {
  const StreamHandle stream = NewStream();
  for (const char* name : {"a", "b", "c", "d"}) Log(stream, name);
  Synchronize(stream);
  EXPECT_THAT(LogSoFar(), ElementsAre("a", "b", "c", "d"));
}

TEST_F(StreamSetTest, StreamsRunIndependently) {
  const StreamHandle held_up = NewStream();
  const StreamHandle other = NewStream();
  HoldUp(held_up);
  Log(other, "other");
  Synchronize(other);
  EXPECT_EQ(streams_.Query(0, other).result, kOk);
  EXPECT_EQ(streams_.Query(0, held_up).result, kNotReady);
  EXPECT_FALSE(streams_.IsIdle());
  gate_.Open();
  Synchronize(held_up);
  EXPECT_EQ(streams_.Query(0, held_up).result, kOk);
  EXPECT_TRUE(streams_.IsIdle());
}

TEST_F(StreamSetTest, AnEventIsReadyWhenTheWorkBeforeItIsDone) {
  const StreamHandle stream = NewStream();
  const EventHandle event = NewEvent();
  EXPECT_EQ(streams_.EventQuery(event).result, kOk);
  HoldUp(stream);
  Record(event, stream);
  EXPECT_EQ(streams_.EventQuery(event).result, kNotReady);
  gate_.Open();
  EXPECT_EQ(streams_.EventSynchronize(event).result, kOk);
  EXPECT_EQ(streams_.EventQuery(event).result, kOk);
}

TEST_F(StreamSetTest, AnEventDoesNotWaitForWorkQueuedAfterIt) {
  const StreamHandle stream = NewStream();
  const EventHandle event = NewEvent();
  Log(stream, "before");
  Record(event, stream);
  HoldUp(stream);
  EXPECT_EQ(streams_.EventSynchronize(event).result, kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("before"));
  EXPECT_EQ(streams_.Query(0, stream).result, kNotReady);
}

TEST_F(StreamSetTest, AStreamWaitsForAnEvent) {
  const StreamHandle first = NewStream();
  const StreamHandle second = NewStream();
  const EventHandle event = NewEvent();
  HoldUp(first);
  Log(first, "first");
  Record(event, first);
  Wait(second, event);
  Log(second, "second");
  EXPECT_EQ(streams_.Query(0, second).result, kNotReady);
  gate_.Open();
  Synchronize(second);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "second"));
}

TEST_F(StreamSetTest, AWaitMeansTheRecordThatWasLastWhenItWasQueued) {
  const StreamHandle first = NewStream();
  const StreamHandle second = NewStream();
  const EventHandle event = NewEvent();
  Log(first, "first");
  Record(event, first);
  Wait(second, event);
  HoldUp(first);
  Record(event, first);
  Log(second, "second");
  // Does not wait for what was recorded later.
  Synchronize(second);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "second"));
  EXPECT_EQ(streams_.EventQuery(event).result, kNotReady);
}

TEST_F(StreamSetTest, WaitingForAnEventNeverRecordedIsNoWait) {
  const StreamHandle stream = NewStream();
  Wait(stream, NewEvent());
  EXPECT_EQ(streams_.Query(0, stream).result, kOk);
}

TEST_F(StreamSetTest, AnEventMayBeDestroyedWhileAStreamWaitsForIt) {
  const StreamHandle first = NewStream();
  const StreamHandle second = NewStream();
  const EventHandle event = NewEvent();
  HoldUp(first);
  Log(first, "first");
  Record(event, first);
  Wait(second, event);
  EXPECT_EQ(streams_.EventDestroy(event).result, kOk);
  Log(second, "second");
  gate_.Open();
  Synchronize(second);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "second"));
}

TEST_F(StreamSetTest, TheLegacyStreamWaitsForBlockingStreams) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  HoldUp(blocking);
  Log(blocking, "blocking");
  Log(nullptr, "legacy");
  EXPECT_EQ(streams_.Query(0, nullptr).result, kNotReady);
  gate_.Open();
  Synchronize(nullptr);
  EXPECT_THAT(LogSoFar(), ElementsAre("blocking", "legacy"));
}

TEST_F(StreamSetTest, BlockingStreamsWaitForTheLegacyStream) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  HoldUp(nullptr);
  Log(nullptr, "legacy");
  Log(blocking, "blocking");
  EXPECT_EQ(streams_.Query(0, blocking).result, kNotReady);
  gate_.Open();
  Synchronize(blocking);
  EXPECT_THAT(LogSoFar(), ElementsAre("legacy", "blocking"));
}

TEST_F(StreamSetTest, TheLegacyStreamOrdersBlockingStreamsAmongThemselves) {
  const StreamHandle first = NewStream(kStreamDefault);
  const StreamHandle second = NewStream(kStreamDefault);
  HoldUp(first);
  Log(first, "first");
  Log(nullptr, "legacy");
  Log(second, "second");
  gate_.Open();
  Synchronize(second);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "legacy", "second"));
}

TEST_F(StreamSetTest, NonBlockingStreamsIgnoreTheLegacyStream) {
  const StreamHandle stream = NewStream(kStreamNonBlocking);
  HoldUp(nullptr);
  Log(stream, "free");
  Synchronize(stream);
  EXPECT_EQ(streams_.Query(0, nullptr).result, kNotReady);

  const StreamHandle held_up = NewStream(kStreamNonBlocking);
  HoldUp(held_up);
  EXPECT_THAT(LogSoFar(), ElementsAre("free"));
}

TEST_F(StreamSetTest, TheLegacyStreamIgnoresNonBlockingStreams) {
  const StreamHandle held_up = NewStream(kStreamNonBlocking);
  HoldUp(held_up);
  Log(nullptr, "legacy");
  Synchronize(nullptr);
  EXPECT_EQ(streams_.Query(0, held_up).result, kNotReady);
}

TEST_F(StreamSetTest, AnEventOfTheLegacyStreamCoversBlockingStreams) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  const EventHandle event = NewEvent();
  HoldUp(blocking);
  Record(event, nullptr);
  EXPECT_EQ(streams_.EventQuery(event).result, kNotReady);
  gate_.Open();
  EXPECT_EQ(streams_.EventSynchronize(event).result, kOk);
  EXPECT_EQ(streams_.Query(0, blocking).result, kOk);
}

TEST_F(StreamSetTest, DestroyReturnsAtOnceAndQueuedWorkCompletes) {
  const StreamHandle stream = NewStream(kStreamDefault);
  const EventHandle event = NewEvent();
  HoldUp(stream);
  Log(stream, "last");
  Record(event, stream);
  EXPECT_EQ(streams_.Destroy(stream).result, kOk);
  EXPECT_EQ(streams_.CheckStream(0, stream).result, kBadHandle);
  EXPECT_EQ(Enqueue(stream, [] {}), kBadHandle);
  EXPECT_EQ(streams_.EventQuery(event).result, kNotReady);
  // The legacy stream still comes after it.
  Log(nullptr, "legacy");
  gate_.Open();
  EXPECT_EQ(streams_.SynchronizeContext(0).result, kOk);
  EXPECT_EQ(streams_.EventQuery(event).result, kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("last", "legacy"));
}

TEST_F(StreamSetTest, SynchronizingAContextWaitsForEveryStream) {
  std::atomic<int> done{0};
  for (int i = 0; i < 5; ++i) {
    const StreamHandle stream = NewStream(i % 2 == 0 ? 0 : 1);
    for (int j = 0; j < 20; ++j) {
      EXPECT_EQ(Enqueue(stream, [&] { ++done; }), kOk);
    }
  }
  EXPECT_EQ(streams_.SynchronizeContext(0).result, kOk);
  EXPECT_EQ(done, 100);
}

TEST_F(StreamSetTest, IdsAndHandlesAreNeverUsedAgain) {
  cpu::StreamSet others{cpu::StreamSetOptions()};
  std::set<uint64_t> ids;
  std::set<StreamHandle> handles;
  for (int i = 0; i < 50; ++i) {
    cpu::StreamSet& set = i % 2 == 0 ? streams_ : others;
    StreamHandle stream = nullptr;
    uint64_t id = 0;
    ASSERT_EQ(set.Create(0, &stream, kStreamDefault).result, kOk);
    ASSERT_EQ(set.GetId(0, stream, &id).result, kOk);
    ASSERT_EQ(set.Enqueue(0, stream, Work(nullptr)).result, kOk);
    ASSERT_EQ(set.Destroy(stream).result, kOk);
    ids.insert(id);
    handles.insert(stream);
  }
  for (cpu::StreamSet* set : {&streams_, &others}) {
    uint64_t id = 0;
    ASSERT_EQ(set->GetId(0, nullptr, &id).result, kOk);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 52u);
  EXPECT_EQ(handles.size(), 50u);
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
        Wait(stream, event);
        EXPECT_EQ(Enqueue(stream,
                          [&, i] {
                            if (turn++ != i) ++violations;
                          }),
                  kOk);
        Record(event, stream);
        if (i % 50 == 0) {
          EXPECT_EQ(Enqueue(nullptr, [] {}), kOk);
        }
      }
      EXPECT_EQ(streams_.EventSynchronize(event).result, kOk);
      EXPECT_EQ(turn, kRounds);
      EXPECT_EQ(streams_.Destroy(a).result, kOk);
      EXPECT_EQ(streams_.Destroy(b).result, kOk);
      EXPECT_EQ(streams_.EventDestroy(event).result, kOk);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(violations, 0);
}

TEST_F(StreamSetTest, NotReadyIsNoMisuse) {
  const StreamHandle stream = NewStream();
  HoldUp(stream);
  EXPECT_EQ(streams_.Query(0, stream).rule, nullptr);
}

TEST_F(StreamSetTest, ARefusalNamesTheRule) {
  StreamHandle stream = nullptr;
  EventHandle event = nullptr;
  const cpu::Verdict verdicts[] = {
      streams_.Create(0, nullptr, 0),
      streams_.Create(0, &stream, 2),
      streams_.EventCreate(0, nullptr, 0),
      streams_.EventCreate(0, &event, kEventDisableTiming | 8),
      streams_.GetId(0, nullptr, nullptr),
      streams_.IsCapturing(0, nullptr, nullptr),
      streams_.WaitEvent(0, nullptr, NewEvent(), 1),
      streams_.EnqueueHostFunction(0, nullptr, nullptr, nullptr)};
  for (const cpu::Verdict& verdict : verdicts) {
    EXPECT_EQ(verdict.result, DriverResult::kInvalidValue);
    ASSERT_NE(verdict.rule, nullptr);
    EXPECT_NE(std::string(verdict.rule).back(), '.');
  }
}

TEST_F(StreamSetTest, ADestroyedStreamAndEventAreRefusedByEveryCall) {
  const StreamHandle stream = NewStream();
  const EventHandle event = NewEvent();
  ASSERT_EQ(streams_.Destroy(stream).result, kOk);
  uint64_t id = 0;
  CaptureStatus status = CaptureStatus::kNone;
  EXPECT_EQ(streams_.Destroy(stream).result, kBadHandle);
  EXPECT_EQ(streams_.Destroy(nullptr).result, kBadHandle);
  EXPECT_EQ(streams_.Query(0, stream).result, kBadHandle);
  EXPECT_EQ(streams_.Synchronize(0, stream).result, kBadHandle);
  EXPECT_EQ(streams_.GetId(0, stream, &id).result, kBadHandle);
  EXPECT_EQ(streams_.IsCapturing(0, stream, &status).result, kBadHandle);
  EXPECT_EQ(streams_.WaitEvent(0, stream, event, 0).result, kBadHandle);
  EXPECT_EQ(streams_.EventRecord(0, event, stream).result, kBadHandle);
  EXPECT_EQ(streams_.BeginCapture(0, stream, CaptureMode::kRelaxed).result,
            kBadHandle);
  const StreamHandle other = NewStream();
  ASSERT_EQ(streams_.EventDestroy(event).result, kOk);
  EXPECT_EQ(streams_.EventDestroy(event).result, kBadHandle);
  EXPECT_EQ(streams_.EventQuery(event).result, kBadHandle);
  EXPECT_EQ(streams_.EventSynchronize(event).result, kBadHandle);
  EXPECT_EQ(streams_.EventRecord(0, event, other).result, kBadHandle);
  EXPECT_EQ(streams_.WaitEvent(0, other, event, 0).result, kBadHandle);
}

TEST_F(StreamSetTest, HostFunctionsRunInOrderAndAreMarkedAsSuch) {
  struct Seen {
    bool inside = false;
    bool after = true;
  } seen;
  const StreamHandle stream = NewStream();
  ASSERT_EQ(streams_
                .EnqueueHostFunction(
                    0, stream,
                    [](void* data) {
                      static_cast<Seen*>(data)->inside =
                          cpu::StreamSet::InHostFunction();
                    },
                    &seen)
                .result,
            kOk);
  ASSERT_EQ(
      Enqueue(stream, [&] { seen.after = cpu::StreamSet::InHostFunction(); }),
      kOk);
  Synchronize(stream);
  EXPECT_TRUE(seen.inside);
  EXPECT_FALSE(seen.after);
  EXPECT_FALSE(cpu::StreamSet::InHostFunction());
}

TEST_F(StreamSetTest, WorkWithAConditionRunsOnceItHolds) {
  const StreamHandle stream = NewStream();
  WaitForFlag(stream);
  Log(stream, "after");
  EXPECT_EQ(streams_.Query(0, stream).result, kNotReady);
  EXPECT_THAT(LogSoFar(), IsEmpty());
  // No call to the streams: the worker sees it by itself.
  flag_.store(true);
  Synchronize(stream);
  EXPECT_THAT(LogSoFar(), ElementsAre("after"));
}

TEST_F(StreamSetTest, WorkMayBeQueuedByWorkAndIsDestroyedWithoutTheLock) {
  const StreamHandle stream = NewStream();
  // Calls the streams when it goes: that would hang with the lock held.
  struct CallsWhenDestroyed {
    cpu::StreamSet* streams;
    ~CallsWhenDestroyed() { streams->IsIdle(); }
  };
  auto caller = std::make_shared<CallsWhenDestroyed>();
  caller->streams = &streams_;
  ASSERT_EQ(Enqueue(stream,
                    [this, stream, caller] {
                      (void)caller;
                      Log(stream, "queued by work");
                    }),
            kOk);
  caller.reset();
  // The first one queues the second while it runs.
  Synchronize(stream);
  Synchronize(stream);
  EXPECT_THAT(LogSoFar(), ElementsAre("queued by work"));
}

TEST(StreamSetEndTest, TheDestructorWaitsForQueuedWork) {
  Gate gate;
  int done = 0;
  std::thread opener;
  {
    cpu::StreamSet streams{cpu::StreamSetOptions()};
    StreamHandle stream = nullptr;
    ASSERT_EQ(streams.Create(0, &stream, 0).result, kOk);
    cpu::StreamWork held_up;
    held_up.run = [&](const cpu::WorkOrder&) { gate.Pass(); };
    ASSERT_EQ(streams.Enqueue(0, stream, std::move(held_up)).result, kOk);
    for (int i = 0; i < 10; ++i) {
      cpu::StreamWork work;
      work.run = [&](const cpu::WorkOrder&) { ++done; };
      ASSERT_EQ(streams.Enqueue(0, stream, std::move(work)).result, kOk);
    }
    ASSERT_EQ(streams.Destroy(stream).result, kOk);
    opener = std::thread([&] { gate.Open(); });
  }
  EXPECT_EQ(done, 10);
  opener.join();
}

TEST(StreamStampTest, WorkIsStampedWhenItIsQueuedNotWhenItRuns) {
  Gate gate;
  uint64_t now = 1;
  uint64_t stamp = 0;
  cpu::StreamSetOptions options;
  options.stamp = [&] { return now; };
  cpu::StreamSet streams(options);
  cpu::StreamWork held_up;
  held_up.run = [&](const cpu::WorkOrder&) { gate.Pass(); };
  ASSERT_EQ(streams.Enqueue(0, nullptr, std::move(held_up)).result, kOk);
  cpu::StreamWork work;
  work.run = [&](const cpu::WorkOrder& order) { stamp = order.queued_stamp; };
  now = 2;
  ASSERT_EQ(streams.Enqueue(0, nullptr, std::move(work)).result, kOk);
  now = 3;
  gate.Open();
  ASSERT_EQ(streams.Synchronize(0, nullptr).result, kOk);
  EXPECT_EQ(stamp, 2u);
}

class DefectiveStreamSetTest : public StreamScene {
 protected:
  static cpu::StreamSetOptions With(CpuDefect defect) {
    cpu::StreamSetOptions options;
    options.defect = defect;
    return options;
  }
};

TEST_F(DefectiveStreamSetTest, ReusesIdsOnlyWithThatDefect) {
  for (const bool defective : {false, true}) {
    cpu::StreamSet streams(
        With(defective ? CpuDefect::kStreamIdReused : CpuDefect::kNone));
    StreamHandle first = nullptr;
    StreamHandle second = nullptr;
    uint64_t first_id = 0;
    uint64_t second_id = 0;
    ASSERT_EQ(streams.Create(0, &first, 0).result, kOk);
    ASSERT_EQ(streams.GetId(0, first, &first_id).result, kOk);
    ASSERT_EQ(streams.Destroy(first).result, kOk);
    ASSERT_EQ(streams.Create(0, &second, 0).result, kOk);
    ASSERT_EQ(streams.GetId(0, second, &second_id).result, kOk);
    EXPECT_NE(first, second);
    EXPECT_EQ(first_id == second_id, defective);
  }
}

TEST_F(DefectiveStreamSetTest, MarksNoHostFunctionWithThatDefect) {
  cpu::StreamSet streams(With(CpuDefect::kCallsInHostFunctionAllowed));
  bool inside = true;
  ASSERT_EQ(streams
                .EnqueueHostFunction(
                    0, nullptr,
                    [](void* data) {
                      *static_cast<bool*>(data) =
                          cpu::StreamSet::InHostFunction();
                    },
                    &inside)
                .result,
            kOk);
  ASSERT_EQ(streams.Synchronize(0, nullptr).result, kOk);
  EXPECT_FALSE(inside);
}

}  // namespace
}  // namespace firn::cpu_testing

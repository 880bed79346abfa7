// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What work is told about the work that comes before it.

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/stream_set.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/stream_scene.h"

namespace firn::cpu_testing {
namespace {

using Order = std::shared_ptr<cpu::WorkOrder>;

class StreamOrderTest : public StreamScene {
 protected:
  StreamHandle first_ = NewStream();
  StreamHandle second_ = NewStream();
  EventHandle event_ = NewEvent();
};

TEST_F(StreamOrderTest, WorkIsAfterEarlierWorkOfItsStreamOnly) {
  const Order a = Track(first_);
  const Order b = Track(first_);
  Synchronize(first_);
  EXPECT_TRUE(IsAfter(b, a));
  EXPECT_FALSE(IsAfter(a, b));
  EXPECT_FALSE(IsAfter(a, a));
  EXPECT_EQ(a->stream_id, IdOf(first_));
  EXPECT_EQ(b->position, a->position + 1);
}

TEST_F(StreamOrderTest, UnorderedStreamsAreUnseenEvenIfTheyHaveEnded) {
  const Order a = Track(first_);
  AwaitUnseen(first_);
  const Order b = Track(second_);
  AwaitUnseen(second_);
  EXPECT_FALSE(IsAfter(b, a));
}

TEST_F(StreamOrderTest, WorkIsAfterWhatItsStreamWaitedFor) {
  HoldUp(first_);
  const Order a = Track(first_);
  Record(event_, first_);
  Wait(second_, event_);
  const Order b = Track(second_);
  gate_.Open();
  AwaitUnseen(second_);
  EXPECT_TRUE(IsAfter(b, a));
}

TEST_F(StreamOrderTest, AWaitForWhatIsOverAlreadyCountsAsWell) {
  const Order a = Track(first_);
  Record(event_, first_);
  AwaitUnseen(first_);
  Wait(second_, event_);
  const Order b = Track(second_);
  AwaitUnseen(second_);
  EXPECT_TRUE(IsAfter(b, a));
}

TEST_F(StreamOrderTest, AWaitBehindUnfinishedWorkCountsAsWell) {
  const Order a = Track(first_);
  Record(event_, first_);
  AwaitUnseen(first_);
  HoldUp(second_);
  const Order before = Track(second_);
  Wait(second_, event_);
  const Order after = Track(second_);
  gate_.Open();
  AwaitUnseen(second_);
  EXPECT_FALSE(IsAfter(before, a));
  EXPECT_TRUE(IsAfter(after, a));
}

TEST_F(StreamOrderTest, AWaitSeesOnlyUpToTheRecord) {
  const Order a = Track(first_);
  Record(event_, first_);
  const Order c = Track(first_);
  AwaitUnseen(first_);
  Wait(second_, event_);
  const Order b = Track(second_);
  AwaitUnseen(second_);
  EXPECT_TRUE(IsAfter(b, a));
  EXPECT_FALSE(IsAfter(b, c));
}

TEST_F(StreamOrderTest, AnEventKnowsWhatItsStreamKnewWhenItWasRecorded) {
  const StreamHandle third = NewStream();
  const EventHandle early = NewEvent();
  const Order a = Track(first_);
  Record(event_, first_);
  const Order b = Track(second_);
  Record(early, second_);
  // Known to the second stream after `early` was recorded there.
  Wait(second_, event_);
  AwaitUnseen(second_);
  Wait(third, early);
  const Order c = Track(third);
  AwaitUnseen(third);
  EXPECT_TRUE(IsAfter(c, b));
  EXPECT_FALSE(IsAfter(c, a));
}

TEST_F(StreamOrderTest, OrderGoesThroughStreamsWithoutWorkOfTheirOwn) {
  const StreamHandle third = NewStream();
  const EventHandle passed_on = NewEvent();
  HoldUp(first_);
  const Order a = Track(first_);
  Record(event_, first_);
  Wait(second_, event_);
  Record(passed_on, second_);
  Wait(third, passed_on);
  const Order b = Track(third);
  gate_.Open();
  AwaitUnseen(third);
  EXPECT_TRUE(IsAfter(b, a));
}

TEST_F(StreamOrderTest, WhatTheHostWaitedForIsSeenByWhatIsQueuedAfterwards) {
  const Order a = Track(first_);
  HoldUp(second_);
  const Order queued_before = Track(second_);
  Synchronize(first_);
  const Order queued_after = Track(second_);
  gate_.Open();
  Synchronize(second_);
  EXPECT_FALSE(IsAfter(queued_before, a));
  EXPECT_TRUE(IsAfter(queued_after, a));
}

TEST_F(StreamOrderTest, TheHostLearnsWhatTheStreamItWaitedForKnew) {
  const StreamHandle third = NewStream();
  const Order a = Track(first_);
  Record(event_, first_);
  Wait(second_, event_);
  Synchronize(second_);
  const Order b = Track(third);
  AwaitUnseen(third);
  EXPECT_TRUE(IsAfter(b, a));
}

TEST_F(StreamOrderTest, EveryWayToWaitOnTheHostCounts) {
  enum { kQuery, kEventQuery, kEventSync, kContext, kDrain, kWays };
  for (int way = 0; way < kWays; ++way) {
    SCOPED_TRACE(way);
    const Order a = Track(first_);
    Record(event_, first_);
    switch (way) {
      case kQuery:
        while (streams_.Query(0, first_).result == kNotReady) {
        }
        break;
      case kEventQuery:
        while (streams_.EventQuery(event_).result == kNotReady) {
        }
        break;
      case kEventSync:
        ASSERT_EQ(streams_.EventSynchronize(event_).result, kOk);
        break;
      case kContext:
        ASSERT_EQ(streams_.SynchronizeContext(0).result, kOk);
        break;
      default:
        ASSERT_EQ(streams_.Drain(), "");
    }
    const Order b = Track(second_);
    AwaitUnseen(second_);
    EXPECT_TRUE(IsAfter(b, a));
  }
}

TEST_F(StreamOrderTest, AQueryThatIsNotReadyTellsTheHostNothing) {
  const Order a = Track(first_);
  Record(event_, first_);
  AwaitUnseen(first_);
  HoldUp(first_);
  ASSERT_EQ(streams_.Query(0, first_).result, kNotReady);
  const Order b = Track(second_);
  AwaitUnseen(second_);
  EXPECT_FALSE(IsAfter(b, a));
}

TEST_F(StreamOrderTest, AWaitForAnEventTellsTheHostOnlyUpToTheRecord) {
  const Order a = Track(first_);
  Record(event_, first_);
  const Order c = Track(first_);
  AwaitUnseen(first_);
  ASSERT_EQ(streams_.EventSynchronize(event_).result, kOk);
  const Order b = Track(second_);
  AwaitUnseen(second_);
  EXPECT_TRUE(IsAfter(b, a));
  EXPECT_FALSE(IsAfter(b, c));
}

TEST_F(StreamOrderTest, TheLegacyStreamIsAfterBlockingStreamsAndBeforeThem) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  const StreamHandle other = NewStream(kStreamDefault);
  const Order a = Track(blocking);
  const Order free = Track(first_);
  AwaitUnseen(blocking);
  AwaitUnseen(first_);
  const Order legacy = Track(nullptr);
  AwaitUnseen(nullptr);
  const Order b = Track(other);
  const Order unordered = Track(second_);
  AwaitUnseen(other);
  AwaitUnseen(second_);
  EXPECT_TRUE(IsAfter(legacy, a));
  EXPECT_FALSE(IsAfter(legacy, free));
  EXPECT_TRUE(IsAfter(b, legacy));
  EXPECT_TRUE(IsAfter(b, a));
  EXPECT_FALSE(IsAfter(unordered, legacy));
}

TEST_F(StreamOrderTest, TheLegacyStreamIsAfterADestroyedBlockingStream) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  const Order a = Track(blocking);
  AwaitUnseen(blocking);
  ASSERT_EQ(streams_.Destroy(blocking).result, kOk);
  const Order legacy = Track(nullptr);
  AwaitUnseen(nullptr);
  EXPECT_TRUE(IsAfter(legacy, a));
}

TEST_F(StreamOrderTest, AnEventOfABlockingStreamIsAfterTheLegacyStream) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  const Order legacy = Track(nullptr);
  AwaitUnseen(nullptr);
  Record(event_, blocking);
  Wait(first_, event_);
  const Order b = Track(first_);
  AwaitUnseen(first_);
  EXPECT_TRUE(IsAfter(b, legacy));
}

TEST_F(StreamOrderTest, AConditionThatHoldsShowsAllThatIsCompleteByThen) {
  WaitForFlag(second_);
  const Order b = Track(second_);
  const Order a = Track(first_);
  ASSERT_EQ(Enqueue(first_, [this] { flag_.store(true); }), kOk);
  AwaitUnseen(second_);
  EXPECT_TRUE(IsAfter(b, a));
}

void OpenGate(void* gate) { static_cast<Gate*>(gate)->Open(); }

TEST_F(StreamOrderTest, AHostFunctionTellsTheHostWhatCameBeforeIt) {
  const Order a = Track(first_);
  struct Gates {
    Gate told;
    Gate* held_up;
  } gates;
  gates.held_up = &gate_;
  ASSERT_EQ(streams_
                .EnqueueHostFunction(
                    0, first_,
                    [](void* data) {
                      static_cast<Gates*>(data)->told.Open();
                      static_cast<Gates*>(data)->held_up->Pass();
                    },
                    &gates)
                .result,
            kOk);
  gates.told.Pass();
  // While the function still runs.
  const Order b = Track(second_);
  AwaitUnseen(second_);
  gate_.Open();
  Synchronize(first_);
  EXPECT_TRUE(IsAfter(b, a));
}

TEST_F(StreamOrderTest, AHostFunctionTellsTheHostWhatItsStreamHadWaitedFor) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  const Order a = Track(blocking);
  // The first operation of its stream.
  Gate told;
  ASSERT_EQ(streams_.EnqueueHostFunction(0, nullptr, OpenGate, &told).result,
            kOk);
  told.Pass();
  const Order b = Track(second_);
  AwaitUnseen(second_);
  EXPECT_TRUE(IsAfter(b, a));
}

TEST_F(StreamOrderTest, AHostFunctionOfAGraphTellsTheHostAsWell) {
  Gate told;
  ASSERT_EQ(streams_.BeginCapture(0, first_, CaptureMode::kRelaxed).result,
            kOk);
  ASSERT_EQ(streams_.EnqueueHostFunction(0, first_, OpenGate, &told).result,
            kOk);
  GraphHandle graph = nullptr;
  ASSERT_EQ(streams_.EndCapture(0, first_, &graph).result, kOk);
  GraphExecHandle exec = nullptr;
  ASSERT_EQ(streams_.GraphInstantiate(&exec, graph, 0).result, kOk);
  const Order a = Track(first_);
  ASSERT_EQ(streams_.GraphLaunch(0, exec, first_).result, kOk);
  told.Pass();
  const Order b = Track(second_);
  AwaitUnseen(second_);
  EXPECT_TRUE(IsAfter(b, a));
}

TEST_F(StreamOrderTest, WorkThatTellsTheHostIsSeenItselfOnceItIsOver) {
  const Order a = std::make_shared<cpu::WorkOrder>();
  cpu::StreamWork work = Work([a](const cpu::WorkOrder& now) { *a = now; });
  work.tells_host = true;
  ASSERT_EQ(streams_.Enqueue(0, first_, std::move(work)).result, kOk);
  const Order untold = Track(first_);
  AwaitUnseen(first_);
  const Order b = Track(second_);
  AwaitUnseen(second_);
  EXPECT_TRUE(IsAfter(b, a));
  EXPECT_FALSE(IsAfter(b, untold));
}

// Without threads, so that it is sure when a stream is gone.
class RetiredStreamsTest : public StreamScene {
 protected:
  RetiredStreamsTest() : StreamScene(Options()) {}
  static cpu::StreamSetOptions Options() {
    cpu::StreamSetOptions options;
    options.inline_when_idle = true;
    options.on_retired = [](uint64_t id) {
      EXPECT_TRUE(retired().insert(id).second);
    };
    return options;
  }
  // Destruction makes room for what was created before.
  bool IsRetired(uint64_t id) {
    NewStream();
    return retired().count(id) != 0;
  }
  // Of a stream whose work the host saw complete.
  uint64_t DestroySeen(StreamHandle stream) {
    const uint64_t id = IdOf(stream);
    Log(stream, "work");
    Synchronize(stream);
    EXPECT_EQ(streams_.Destroy(stream).result, kOk);
    return id;
  }

 private:
  // Not a member: the base class calls it before and after members live.
  static std::set<uint64_t>& retired() {
    static std::set<uint64_t> ids;
    return ids;
  }
};

TEST_F(RetiredStreamsTest, ClocksForgetStreamsThatAreGoneAndSeen) {
  const StreamHandle lasting = NewStream();
  const EventHandle event = NewEvent();
  uint64_t gone_id = 0;
  for (int i = 0; i < 200; ++i) {
    const StreamHandle stream = NewStream();
    gone_id = IdOf(stream);
    Log(stream, "work");
    Record(event, stream);
    Wait(lasting, event);
    Log(lasting, "work");
    Synchronize(stream);
    ASSERT_EQ(streams_.Destroy(stream).result, kOk);
    ASSERT_TRUE(IsRetired(gone_id));
  }
  const Order order = Track(lasting);
  ASSERT_NE(order->seen, nullptr);
  EXPECT_LE(order->seen->size(), 3u);
  EXPECT_FALSE(IsRetired(IdOf(lasting)));
}

TEST_F(RetiredStreamsTest, AStreamIsNotGoneWhileWorkIsOlderThanItsSight) {
  const StreamHandle stream = NewStream();
  const StreamHandle held_up = NewStream();
  const StreamHandle other = NewStream();
  const EventHandle event = NewEvent();
  // Queued before the host sees the other stream's work.
  WaitForFlag(held_up);
  Record(event, held_up);
  Wait(other, event);
  const uint64_t id = DestroySeen(stream);
  EXPECT_FALSE(IsRetired(id));
  flag_.store(true);
  Synchronize(other);
  EXPECT_TRUE(IsRetired(id));
}

TEST_F(RetiredStreamsTest, WorkThatRunsAlreadyKeepsNoStream) {
  const StreamHandle stream = NewStream();
  const StreamHandle other = NewStream();
  RunUntilGateOpens(other);
  EXPECT_TRUE(IsRetired(DestroySeen(stream)));
  // What is behind it does not know yet what the host has seen since.
  Log(other, "behind");
  const uint64_t id = DestroySeen(NewStream());
  EXPECT_FALSE(IsRetired(id));
  gate_.Open();
  Synchronize(other);
  EXPECT_TRUE(IsRetired(id));
}

TEST_F(RetiredStreamsTest, AConditionThatWillShowAllKeepsNoStream) {
  const StreamHandle stream = NewStream();
  const StreamHandle other = NewStream();
  WaitForFlag(other);
  const Order behind = Track(other);
  const Order before = Track(stream);
  EXPECT_TRUE(IsRetired(DestroySeen(stream)));
  flag_.store(true);
  Synchronize(other);
  // By then it is sure, so that clocks need not say so.
  EXPECT_FALSE(IsAfter(before, behind));
}

TEST_F(RetiredStreamsTest, OfStreamsTheHostNeverSawOnlySoManyAreKept) {
  constexpr int kStreams = 2000;
  constexpr int kMostKept = 300;
  std::vector<uint64_t> ids;
  for (int i = 0; i < kStreams; ++i) {
    const StreamHandle stream = NewStream();
    ids.push_back(IdOf(stream));
    Log(stream, "work");
    ASSERT_EQ(streams_.Destroy(stream).result, kOk);
  }
  int kept = 0;
  for (const uint64_t id : ids) kept += IsRetired(id) ? 0 : 1;
  EXPECT_LE(kept, kMostKept);
  // The last ones may still be asked about in ways that tell.
  EXPECT_FALSE(IsRetired(ids.back()));
}

TEST_F(RetiredStreamsTest, AStreamTheHostNeverSawIsNotForgotten) {
  const StreamHandle stream = NewStream();
  const Order a = Track(stream);
  ASSERT_EQ(streams_.Destroy(stream).result, kOk);
  EXPECT_FALSE(IsRetired(a->stream_id));
  const Order unordered = Track(NewStream());
  EXPECT_FALSE(IsAfter(unordered, a));
  ASSERT_EQ(streams_.SynchronizeContext(0).result, kOk);
  const Order ordered = Track(NewStream());
  EXPECT_TRUE(IsAfter(ordered, a) || IsRetired(a->stream_id));
}

}  // namespace
}  // namespace firn::cpu_testing

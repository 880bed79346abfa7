// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What work is told about the work that comes before it.

#include <cstdint>
#include <memory>
#include <set>

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
  enum { kQuery, kEventQuery, kEventSync, kDevice, kAll, kDrain, kWays };
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
      case kDevice:
        ASSERT_EQ(streams_.SynchronizeDevice(0).result, kOk);
        break;
      case kAll:
        streams_.SynchronizeAll();
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
  const StreamHandle other = NewStream();
  const uint64_t id = IdOf(stream);
  Log(stream, "work");
  // Queued before the host sees the other stream's work.
  WaitForFlag(other);
  Synchronize(stream);
  ASSERT_EQ(streams_.Destroy(stream).result, kOk);
  EXPECT_FALSE(IsRetired(id));
  flag_.store(true);
  Synchronize(other);
  EXPECT_TRUE(IsRetired(id));
}

TEST_F(RetiredStreamsTest, AStreamTheHostNeverSawIsNotForgotten) {
  const StreamHandle stream = NewStream();
  const Order a = Track(stream);
  ASSERT_EQ(streams_.Destroy(stream).result, kOk);
  EXPECT_FALSE(IsRetired(a->stream_id));
  const Order unordered = Track(NewStream());
  EXPECT_FALSE(IsAfter(unordered, a));
  streams_.SynchronizeAll();
  const Order ordered = Track(NewStream());
  EXPECT_TRUE(IsAfter(ordered, a) || IsRetired(a->stream_id));
}

}  // namespace
}  // namespace firn::cpu_testing

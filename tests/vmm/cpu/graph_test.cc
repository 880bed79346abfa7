// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Graphs made from captures, and their launches.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/capture_scene.h"

namespace firn::cpu_testing {
namespace {

using ::testing::ElementsAre;

constexpr DriverResult kInvalidValue = DriverResult::kInvalidValue;

class GraphTest : public CaptureScene {
 protected:
  explicit GraphTest(const cpu::StreamSetOptions& options = {})
      : CaptureScene(options) {}

  DriverResult Launch(GraphExecHandle exec, StreamHandle stream) {
    return streams_.GraphLaunch(0, exec, stream).result;
  }

  StreamHandle stream_ = NewStream();
  StreamHandle other_ = NewStream();
};

TEST_F(GraphTest, ALaunchRunsWhatWasCapturedEachTime) {
  Begin(stream_);
  Log(stream_, "a");
  Log(stream_, "b");
  const GraphExecHandle exec = Instantiate(Finish(stream_));
  EXPECT_EQ(Launch(exec, stream_), kOk);
  EXPECT_EQ(Launch(exec, stream_), kOk);
  Synchronize(stream_);
  EXPECT_THAT(LogSoFar(), ElementsAre("a", "b", "a", "b"));
}

TEST_F(GraphTest, AnExecutableGraphOutlivesItsGraph) {
  Begin(stream_);
  Log(stream_, "a");
  const GraphHandle graph = Finish(stream_);
  const GraphExecHandle exec = Instantiate(graph);
  EXPECT_EQ(streams_.GraphDestroy(graph).result, kOk);
  EXPECT_EQ(Launch(exec, stream_), kOk);
  Synchronize(stream_);
  EXPECT_THAT(LogSoFar(), ElementsAre("a"));
}

TEST_F(GraphTest, ALaunchOutlivesTheExecutableGraph) {
  Begin(other_);
  Log(other_, "a");
  const GraphExecHandle exec = Instantiate(Finish(other_));
  HoldUp(stream_);
  EXPECT_EQ(Launch(exec, stream_), kOk);
  EXPECT_EQ(streams_.GraphExecDestroy(exec).result, kOk);
  gate_.Open();
  Synchronize(stream_);
  EXPECT_THAT(LogSoFar(), ElementsAre("a"));
}

TEST_F(GraphTest, AForkRunsInTheOrderOfCaptureOnOneStream) {
  const EventHandle fork = NewEvent();
  const EventHandle join = NewEvent();
  Begin(stream_);
  Log(stream_, "before");
  Record(fork, stream_);
  Wait(other_, fork);
  Log(other_, "fork");
  Record(join, other_);
  Wait(stream_, join);
  Log(stream_, "after");
  const GraphExecHandle exec = Instantiate(Finish(stream_));
  HoldUp(other_);
  EXPECT_EQ(Launch(exec, stream_), kOk);
  Synchronize(stream_);
  EXPECT_THAT(LogSoFar(), ElementsAre("before", "fork", "after"));
}

TEST_F(GraphTest, LaunchesOfOneExecutableGraphRunOneAfterTheOther) {
  std::shared_ptr<cpu::WorkOrder> orders[2];
  int launches = 0;
  Begin(stream_);
  ASSERT_EQ(streams_
                .Enqueue(0, stream_, Work([&](const cpu::WorkOrder& order) {
                           // Not atomic: launches come one after the other.
                           orders[launches++] =
                               std::make_shared<cpu::WorkOrder>(order);
                         }))
                .result,
            kOk);
  const GraphExecHandle exec = Instantiate(Finish(stream_));
  HoldUp(stream_);
  EXPECT_EQ(Launch(exec, stream_), kOk);
  EXPECT_EQ(Launch(exec, other_), kOk);
  EXPECT_EQ(streams_.Query(0, other_).result, kNotReady);
  gate_.Open();
  Synchronize(other_);
  ASSERT_EQ(launches, 2);
  EXPECT_EQ(orders[0]->stream_id, IdOf(stream_));
  EXPECT_EQ(orders[1]->stream_id, IdOf(other_));
  EXPECT_TRUE(IsAfter(orders[1], orders[0]));
}

TEST_F(GraphTest, ALaunchSeesWhatTheHostSawBeforeIt) {
  Begin(stream_);
  const auto launched = Track(stream_);
  const GraphExecHandle exec = Instantiate(Finish(stream_));
  const auto a = Track(other_);
  Synchronize(other_);
  EXPECT_EQ(Launch(exec, stream_), kOk);
  Synchronize(stream_);
  EXPECT_TRUE(IsAfter(launched, a));
}

TEST_F(GraphTest, ExecutableGraphsOfOneGraphShareNoState) {
  Begin(stream_);
  ASSERT_EQ(Enqueue(stream_,
                    [this, count = 0]() mutable {
                      ++count;
                      MutexLock lock(&mutex_);
                      log_.push_back(std::to_string(count));
                    }),
            kOk);
  const GraphHandle graph = Finish(stream_);
  const GraphExecHandle first = Instantiate(graph);
  const GraphExecHandle second = Instantiate(graph);
  for (const GraphExecHandle exec : {first, first, second}) {
    EXPECT_EQ(Launch(exec, stream_), kOk);
  }
  Synchronize(stream_);
  EXPECT_THAT(LogSoFar(), ElementsAre("1", "2", "1"));
}

TEST_F(GraphTest, ConditionsAndHostFunctionsAreCapturedToo) {
  Begin(stream_);
  WaitForFlag(stream_);
  bool inside = false;
  ASSERT_EQ(streams_
                .EnqueueHostFunction(
                    0, stream_,
                    [](void* data) {
                      *static_cast<bool*>(data) =
                          cpu::StreamSet::InHostFunction();
                    },
                    &inside)
                .result,
            kOk);
  const GraphExecHandle exec = Instantiate(Finish(stream_));
  EXPECT_EQ(Launch(exec, stream_), kOk);
  EXPECT_EQ(streams_.Query(0, stream_).result, kNotReady);
  flag_.store(true);
  Synchronize(stream_);
  EXPECT_TRUE(inside);
}

TEST_F(GraphTest, EachLaunchIsStampedAnew) {
  std::vector<uint64_t> stamps;
  cpu::StreamSetOptions options;
  uint64_t now = 1;
  options.stamp = [&] { return now; };
  cpu::StreamSet streams(options);
  StreamHandle stream = nullptr;
  ASSERT_EQ(streams.Create(0, &stream, 0).result, kOk);
  ASSERT_EQ(streams.BeginCapture(0, stream, CaptureMode::kGlobal).result, kOk);
  cpu::StreamWork work;
  work.ready = [&](uint64_t stamp) {
    stamps.push_back(stamp);
    return true;
  };
  work.run = [&](const cpu::WorkOrder& order) {
    stamps.push_back(order.queued_stamp);
  };
  ASSERT_EQ(streams.Enqueue(0, stream, std::move(work)).result, kOk);
  GraphHandle graph = nullptr;
  GraphExecHandle exec = nullptr;
  ASSERT_EQ(streams.EndCapture(0, stream, &graph).result, kOk);
  ASSERT_EQ(streams.GraphInstantiate(&exec, graph, 0).result, kOk);
  for (now = 2; now < 4; ++now) {
    ASSERT_EQ(streams.GraphLaunch(0, exec, stream).result, kOk);
    ASSERT_EQ(streams.Synchronize(0, stream).result, kOk);
  }
  EXPECT_THAT(stamps, ElementsAre(2u, 2u, 3u, 3u));
}

TEST_F(GraphTest, AnEmptyGraphDoesNothing) {
  Begin(stream_);
  const GraphExecHandle exec = Instantiate(Finish(stream_));
  EXPECT_EQ(Launch(exec, stream_), kOk);
  EXPECT_EQ(Launch(exec, other_), kOk);
  EXPECT_TRUE(streams_.IsIdle());
}

TEST_F(GraphTest, AGraphIsNotLaunchedIntoACapture) {
  Begin(stream_);
  Log(stream_, "a");
  const GraphExecHandle exec = Instantiate(Finish(stream_));
  Begin(other_);
  EXPECT_EQ(Launch(exec, other_), kUnsupported);
  EXPECT_EQ(Launch(exec, other_), kInvalidated);
  EXPECT_EQ(End(other_), kInvalidated);
}

TEST_F(GraphTest, ALaunchOnTheLegacyStreamIsAUseOfIt) {
  const StreamHandle blocking = NewStream(kStreamDefault);
  Begin(stream_);
  Log(stream_, "a");
  const GraphExecHandle exec = Instantiate(Finish(stream_));
  Begin(blocking);
  EXPECT_EQ(Launch(exec, nullptr), DriverResult::kStreamCaptureImplicit);
  EXPECT_EQ(End(blocking), kInvalidated);
  EXPECT_EQ(Launch(exec, nullptr), kOk);
  Synchronize(nullptr);
  EXPECT_THAT(LogSoFar(), ElementsAre("a"));
}

TEST_F(GraphTest, HandlesAreCheckedAndNeverUsedAgain) {
  Begin(stream_);
  const GraphHandle graph = Finish(stream_);
  GraphExecHandle exec = nullptr;
  EXPECT_EQ(streams_.GraphInstantiate(nullptr, graph, 0).result, kInvalidValue);
  EXPECT_EQ(streams_.GraphInstantiate(&exec, graph, 1).result, kInvalidValue);
  EXPECT_EQ(streams_.GraphInstantiate(&exec, nullptr, 0).result, kInvalidValue);
  EXPECT_EQ(Launch(nullptr, stream_), kInvalidValue);
  EXPECT_EQ(streams_.GraphDestroy(nullptr).result, kInvalidValue);
  EXPECT_EQ(streams_.GraphExecDestroy(nullptr).result, kInvalidValue);
  exec = Instantiate(graph);
  EXPECT_EQ(streams_.GraphLaunch(0, exec, NewStream()).result, kOk);
  ASSERT_EQ(streams_.GraphDestroy(graph).result, kOk);
  ASSERT_EQ(streams_.GraphExecDestroy(exec).result, kOk);
  EXPECT_EQ(streams_.GraphDestroy(graph).result, kInvalidValue);
  EXPECT_EQ(streams_.GraphExecDestroy(exec).result, kInvalidValue);
  EXPECT_EQ(Launch(exec, stream_), kInvalidValue);
  Begin(stream_);
  const GraphHandle other = Finish(stream_);
  EXPECT_NE(other, graph);
  EXPECT_NE(Instantiate(other), exec);
}

TEST_F(GraphTest, WhatAGraphHoldsGoesWithItsLastHolder) {
  auto held = std::make_shared<int>(0);
  Begin(stream_);
  ASSERT_EQ(Enqueue(stream_, [held] { (void)held; }), kOk);
  const GraphHandle graph = Finish(stream_);
  const GraphExecHandle exec = Instantiate(graph);
  EXPECT_EQ(Launch(exec, stream_), kOk);
  Synchronize(stream_);
  EXPECT_EQ(held.use_count(), 3);
  ASSERT_EQ(streams_.GraphDestroy(graph).result, kOk);
  EXPECT_EQ(held.use_count(), 2);
  ASSERT_EQ(streams_.GraphExecDestroy(exec).result, kOk);
  EXPECT_EQ(held.use_count(), 1);
}

class InlineGraphTest : public GraphTest {
 protected:
  InlineGraphTest() : GraphTest(Options()) {}
  static cpu::StreamSetOptions Options() {
    cpu::StreamSetOptions options;
    options.inline_when_idle = true;
    return options;
  }
};

TEST_F(InlineGraphTest, ALaunchOnAnIdleStreamIsRunAtOnceUpToACondition) {
  Begin(stream_);
  Log(stream_, "a");
  Log(stream_, "b");
  WaitForFlag(stream_);
  Log(stream_, "c");
  const GraphExecHandle exec = Instantiate(Finish(stream_));
  EXPECT_EQ(Launch(exec, stream_), kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("a", "b"));
  flag_.store(true);
  Synchronize(stream_);
  EXPECT_THAT(LogSoFar(), ElementsAre("a", "b", "c"));
}

}  // namespace
}  // namespace firn::cpu_testing

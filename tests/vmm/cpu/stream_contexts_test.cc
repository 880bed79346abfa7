// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams and events of several contexts of one device.

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "firn/vmm/cpu/stream_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/capture_scene.h"
#include "tests/vmm/cpu/stream_scene.h"

namespace firn::cpu_testing {
namespace {

using ::testing::ElementsAre;

constexpr DriverResult kBadHandle = DriverResult::kInvalidHandle;

// Device 0 has contexts 0 and `second_`, device 1 has context 1.
class StreamContextsTest : public StreamScene {
 protected:
  StreamContextsTest() : StreamScene(Options()), second_(NewContext()) {}
  static cpu::StreamSetOptions Options() {
    cpu::StreamSetOptions options;
    options.device_count = 2;
    // Called with the lock of the streams held.
    options.on_retired = [](uint64_t id) { retired().insert(id); };
    return options;
  }
  // Outlives the streams.
  static std::set<uint64_t>& retired() {
    static auto* const ids = new std::set<uint64_t>;
    return *ids;
  }
  int NewContext(int device = 0) {
    const absl::optional<int> context = streams_.CreateContext(device);
    EXPECT_TRUE(context.has_value());
    return context.value_or(0);
  }
  DriverResult Query(StreamHandle stream, int context = 0) {
    return streams_.Query(context, stream).result;
  }

  const int second_;
};

TEST_F(StreamContextsTest, AnEventIsRecordedInItsOwnContextOnly) {
  const StreamHandle streams[] = {NewStream(kStreamNonBlocking, 0),
                                  NewStream(kStreamNonBlocking, second_)};
  const EventHandle events[] = {NewEvent(0), NewEvent(second_)};
  // Whichever the call is made in.
  for (const int context : {0, second_}) {
    EXPECT_EQ(streams_.EventRecord(context, events[0], streams[1]).result,
              kBadHandle);
    EXPECT_EQ(streams_.EventRecord(context, events[1], streams[0]).result,
              kBadHandle);
    EXPECT_EQ(streams_.EventRecord(context, events[0], streams[0]).result, kOk);
    EXPECT_EQ(streams_.EventRecord(context, events[1], streams[1]).result, kOk);
  }
}

TEST_F(StreamContextsTest, TheNullStreamIsThatOfTheContextThatIsCalled) {
  const EventHandle event = NewEvent(second_);
  EXPECT_EQ(streams_.EventRecord(0, event, nullptr).result, kBadHandle);
  EXPECT_EQ(streams_.EventRecord(second_, event, nullptr).result, kOk);
  std::set<uint64_t> ids;
  for (const int context : {0, 1, second_}) {
    uint64_t id = 0;
    ASSERT_EQ(streams_.GetId(context, nullptr, &id).result, kOk);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 3u);
}

TEST_F(StreamContextsTest, WorkGoesToStreamsOfAllContextsOfTheDevice) {
  const StreamHandle stream = NewStream(kStreamNonBlocking, second_);
  EXPECT_EQ(streams_.CheckStream(0, stream).result, kOk);
  EXPECT_EQ(streams_.CheckStream(1, stream).result, kBadHandle);
  Log(stream, "of the first context", /*device=*/0);
  EXPECT_EQ(Enqueue(
                stream, [] {}, /*device=*/1),
            kBadHandle);
  int runs = 0;
  ASSERT_EQ(
      streams_
          .EnqueueHostFunction(
              0, stream, [](void* data) { ++*static_cast<int*>(data); }, &runs)
          .result,
      kOk);
  Synchronize(stream);
  EXPECT_EQ(runs, 1);
  EXPECT_THAT(LogSoFar(), ElementsAre("of the first context"));
}

TEST_F(StreamContextsTest, AnyContextAsksAboutStreamsAndEventsAndEndsThem) {
  const StreamHandle stream = NewStream(kStreamNonBlocking, second_);
  const EventHandle event = NewEvent(second_);
  EXPECT_EQ(streams_.EventRecord(second_, event, stream).result, kOk);
  uint64_t id = 0;
  CaptureStatus status = CaptureStatus::kActive;
  int owner = -1;
  for (const int context : {0, 1}) {
    EXPECT_EQ(streams_.Query(context, stream).result, kOk);
    EXPECT_EQ(streams_.Synchronize(context, stream).result, kOk);
    EXPECT_EQ(streams_.GetId(context, stream, &id).result, kOk);
    EXPECT_EQ(streams_.IsCapturing(context, stream, &status).result, kOk);
    EXPECT_EQ(streams_.GetContext(context, stream, &owner).result, kOk);
    EXPECT_EQ(owner, second_);
    EXPECT_EQ(streams_.GetContext(context, nullptr, &owner).result, kOk);
    EXPECT_EQ(owner, context);
  }
  EXPECT_EQ(streams_.GetContext(0, stream, nullptr).result,
            DriverResult::kInvalidValue);
  EXPECT_EQ(streams_.EventQuery(event).result, kOk);
  EXPECT_EQ(streams_.EventSynchronize(event).result, kOk);
  EXPECT_EQ(streams_.EventDestroy(event).result, kOk);
  EXPECT_EQ(streams_.Destroy(stream).result, kOk);
  EXPECT_EQ(streams_.GetContext(0, stream, &owner).result, kBadHandle);
}

TEST_F(StreamContextsTest, AStreamWaitsForAnEventOfAnotherContext) {
  const StreamHandle first = NewStream(kStreamNonBlocking, 0);
  const StreamHandle second = NewStream(kStreamNonBlocking, second_);
  const EventHandle event = NewEvent(0);
  HoldUp(first);
  Log(first, "first");
  Record(event, first);
  // In the first context, on a stream of the second.
  ASSERT_EQ(streams_.WaitEvent(0, second, event, 0).result, kOk);
  Log(second, "second", second_);
  EXPECT_EQ(Query(second), kNotReady);
  gate_.Open();
  Synchronize(second);
  EXPECT_THAT(LogSoFar(), ElementsAre("first", "second"));
}

TEST_F(StreamContextsTest, TheLegacyStreamOrdersItselfWithItsOwnContextOnly) {
  const StreamHandle blocking = NewStream(kStreamDefault, second_);
  HoldUp(nullptr, 0);
  const auto held = Track(nullptr, 0);
  Log(nullptr, "legacy", second_);
  Log(blocking, "blocking", second_);
  EXPECT_EQ(streams_.Synchronize(second_, blocking).result, kOk);
  EXPECT_EQ(streams_.Synchronize(second_, nullptr).result, kOk);
  EXPECT_EQ(streams_.Query(0, nullptr).result, kNotReady);
  EXPECT_THAT(LogSoFar(), ElementsAre("legacy", "blocking"));
  const auto later = Track(nullptr, second_);
  EXPECT_EQ(streams_.Synchronize(second_, nullptr).result, kOk);
  gate_.Open();
  EXPECT_EQ(streams_.Synchronize(0, nullptr).result, kOk);
  EXPECT_FALSE(IsAfter(later, held));
}

TEST_F(StreamContextsTest, AContextIsWaitedForAlone) {
  const StreamHandle other = NewStream(kStreamNonBlocking, 0);
  const StreamHandle stream = NewStream(kStreamDefault, second_);
  HoldUp(other);
  // Queued in another context than the stream's.
  Log(stream, "waited for", /*device=*/0);
  ASSERT_EQ(streams_.SynchronizeContext(second_).result, kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("waited for"));
  EXPECT_EQ(Query(other), kNotReady);
  gate_.Open();
  ASSERT_EQ(streams_.SynchronizeContext(0).result, kOk);
  EXPECT_EQ(Query(other), kOk);
}

TEST_F(StreamContextsTest, ADrainWaitsForAllContexts) {
  const StreamHandle stream = NewStream(kStreamNonBlocking, second_);
  HoldUp(stream, second_);
  Log(stream, "drained", second_);
  std::thread opener([this] {
    absl::SleepFor(absl::Milliseconds(20));
    gate_.Open();
  });
  EXPECT_EQ(streams_.Drain(), "");
  EXPECT_THAT(LogSoFar(), ElementsAre("drained"));
  opener.join();
}

TEST_F(StreamContextsTest, ACaptureForbidsWhatConcernsItsOwnContext) {
  const StreamHandle stream = NewStream(kStreamDefault, second_);
  ASSERT_EQ(streams_.BeginCapture(0, stream, CaptureMode::kRelaxed).result,
            kOk);
  CaptureStatus status = CaptureStatus::kNone;
  EXPECT_EQ(streams_.IsCapturing(0, nullptr, &status).result, kOk);
  EXPECT_EQ(streams_.IsCapturing(second_, nullptr, &status).result,
            DriverResult::kStreamCaptureImplicit);
  EXPECT_EQ(streams_.SynchronizeContext(0).result, kOk);
  Log(nullptr, "first", 0);
  EXPECT_EQ(streams_.IsCapturing(0, stream, &status).result, kOk);
  EXPECT_EQ(status, CaptureStatus::kActive);
  EXPECT_EQ(Enqueue(
                nullptr, [] {}, second_),
            DriverResult::kStreamCaptureImplicit);
  EXPECT_EQ(streams_.SynchronizeContext(second_).result,
            DriverResult::kStreamCaptureUnsupported);
  GraphHandle graph = nullptr;
  EXPECT_EQ(streams_.EndCapture(0, stream, &graph).result, kInvalidated);
}

TEST_F(StreamContextsTest, ACaptureForksIntoAnotherContext) {
  const StreamHandle origin = NewStream(kStreamNonBlocking, 0);
  const StreamHandle fork = NewStream(kStreamNonBlocking, second_);
  const EventHandle begun = NewEvent(0);
  const EventHandle ended = NewEvent(second_);
  ASSERT_EQ(streams_.BeginCapture(0, origin, CaptureMode::kRelaxed).result,
            kOk);
  Record(begun, origin);
  Wait(fork, begun);
  Log(fork, "forked");
  Record(ended, fork);
  Wait(origin, ended);
  GraphHandle graph = nullptr;
  ASSERT_EQ(streams_.EndCapture(0, origin, &graph).result, kOk);
  GraphExecHandle exec = nullptr;
  ASSERT_EQ(streams_.GraphInstantiate(&exec, graph, 0).result, kOk);
  ASSERT_EQ(streams_.GraphLaunch(0, exec, fork).result, kOk);
  ASSERT_EQ(streams_.SynchronizeContext(second_).result, kOk);
  EXPECT_THAT(LogSoFar(), ElementsAre("forked"));
}

// --- the end of a context ---

TEST_F(StreamContextsTest, StreamsAndEventsGoWithTheirContext) {
  const StreamHandle stream = NewStream(kStreamNonBlocking, second_);
  const EventHandle event = NewEvent(second_);
  const StreamHandle other_stream = NewStream();
  const EventHandle other_event = NewEvent();
  streams_.DestroyContext(second_);
  EXPECT_EQ(Query(stream), kBadHandle);
  EXPECT_EQ(Enqueue(stream, [] {}), kBadHandle);
  EXPECT_EQ(streams_.Destroy(stream).result, kBadHandle);
  EXPECT_EQ(streams_.EventQuery(event).result, kBadHandle);
  EXPECT_EQ(streams_.EventDestroy(event).result, kBadHandle);
  EXPECT_EQ(Query(other_stream), kOk);
  EXPECT_EQ(streams_.EventQuery(other_event).result, kOk);
}

TEST_F(StreamContextsTest, TheEndOfAContextWaitsForItsWorkAlone) {
  const StreamHandle other = NewStream();
  const StreamHandle waiting = NewStream();
  const EventHandle event = NewEvent(second_);
  Gate other_gate;
  ASSERT_EQ(Enqueue(other, [&] { other_gate.Pass(); }), kOk);
  HoldUp(nullptr, second_);
  Log(nullptr, "in the context", second_);
  EXPECT_EQ(streams_.EventRecord(second_, event, nullptr).result, kOk);
  Wait(waiting, event);
  Log(waiting, "after it");
  std::atomic<bool> ended{false};
  std::thread ender([&] {
    streams_.DestroyContext(second_);
    ended.store(true);
  });
  // Its events are gone at once, its work is waited for.
  while (streams_.EventQuery(event).result != kBadHandle) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(ended.load());
  gate_.Open();
  ender.join();
  Synchronize(waiting);
  EXPECT_THAT(LogSoFar(), ElementsAre("in the context", "after it"));
  EXPECT_EQ(Query(other), kNotReady);
  other_gate.Open();
  Synchronize(other);
}

TEST_F(StreamContextsTest, WorkAfterTheEndOfAContextComesAfterItsWork) {
  const StreamHandle stream = NewStream(kStreamNonBlocking, second_);
  const auto before = Track(stream, second_);
  streams_.DestroyContext(second_);
  const StreamHandle later_stream = NewStream();
  const auto after = Track(later_stream);
  Synchronize(later_stream);
  // A stream that is retired comes before all, and no clock mentions it.
  EXPECT_TRUE(IsAfter(after, before) ||
              retired().count(before->stream_id) != 0);
}

TEST_F(StreamContextsTest, TheEndOfAContextInvalidatesCapturesItTakesPartIn) {
  const StreamHandle origin = NewStream();
  const StreamHandle fork = NewStream(kStreamNonBlocking, second_);
  const StreamHandle own_origin = NewStream(kStreamNonBlocking, second_);
  const EventHandle event = NewEvent();
  ASSERT_EQ(streams_.BeginCapture(0, own_origin, CaptureMode::kGlobal).result,
            kOk);
  ASSERT_EQ(streams_.BeginCapture(0, origin, CaptureMode::kRelaxed).result,
            kOk);
  Record(event, origin);
  Wait(fork, event);
  Log(fork, "never");
  Log(own_origin, "never");
  streams_.DestroyContext(second_);
  // The other capture is over: it forbids nothing any more.
  EXPECT_EQ(streams_.AdmitUnsafeCall().result, kOk);
  GraphHandle graph = nullptr;
  EXPECT_EQ(streams_.EndCapture(0, origin, &graph).result, kInvalidated);
  EXPECT_FALSE(streams_.HasCapture());
  EXPECT_THAT(LogSoFar(), ElementsAre());
}

TEST_F(StreamContextsTest, NumbersAreNeverUsedAgainAndPlacesAre) {
  std::set<int> numbers = {0, 1, second_};
  std::set<uint64_t> legacy_ids;
  for (int i = 0; i < 3 * cpu::StreamSet::kMaxContexts; ++i) {
    const int context = NewContext();
    EXPECT_TRUE(numbers.insert(context).second);
    uint64_t id = 0;
    ASSERT_EQ(streams_.GetId(context, nullptr, &id).result, kOk);
    EXPECT_TRUE(legacy_ids.insert(id).second);
    Log(nullptr, "work", context);
    streams_.DestroyContext(context);
  }
}

TEST_F(StreamContextsTest, OneContextTooManyIsRefused) {
  std::vector<int> contexts;
  while (contexts.size() + 3 < cpu::StreamSet::kMaxContexts) {
    contexts.push_back(NewContext(/*device=*/1));
  }
  EXPECT_FALSE(streams_.CreateContext(0).has_value());
  streams_.DestroyContext(contexts.back());
  contexts.back() = NewContext();
  EXPECT_FALSE(streams_.CreateContext(1).has_value());
  for (const int context : contexts) streams_.DestroyContext(context);
}

TEST_F(StreamContextsTest, ContextsComeAndGoOnSeveralThreads) {
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const int context = NewContext();
        const StreamHandle stream = NewStream(kStreamDefault, context);
        const EventHandle event = NewEvent(context);
        EXPECT_EQ(Enqueue(
                      stream, [&] { ++done; }, context),
                  kOk);
        EXPECT_EQ(streams_.EventRecord(context, event, stream).result, kOk);
        EXPECT_EQ(streams_.WaitEvent(0, nullptr, event, 0).result, kOk);
        EXPECT_EQ(Enqueue(
                      nullptr, [&] { ++done; }, context),
                  kOk);
        streams_.DestroyContext(context);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done.load(), 400);
}

}  // namespace
}  // namespace firn::cpu_testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/training.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/generator_testing.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(TrainingTest, StateLivesThroughoutAndStepsReturnToIt) {
  const std::vector<TraceEvent> events = EventsOf(
      "gen:training,steps=4,layers=3,hidden=64,shards=2,eval_every=0,"
      "checkpoint_every=0");
  // A layer's 12 * 64 * 64 parameters, half of them here: 2 and 12 bytes each.
  constexpr uint64_t kState = 3 * (12 * 64 * 64 / 2) * (2 + 12);
  uint64_t live = 0;
  int at_state = 0;
  for (const TraceEvent& event : events) {
    live +=
        event.kind == TraceEventKind::kAllocate ? event.bytes : -event.bytes;
    if (live == kState) ++at_state;
  }
  EXPECT_EQ(live, 0u);
  EXPECT_GE(at_state, 5);  // before the steps and after each
}

TEST(TrainingTest, LongerSequencesNeedMoreMemory) {
  const TraceTotals shorter =
      TotalsOf(EventsOf("gen:training,steps=2,layers=4,seq=256"));
  const TraceTotals longer =
      TotalsOf(EventsOf("gen:training,steps=2,layers=4,seq=1024"));
  EXPECT_EQ(shorter.allocs, longer.allocs);
  EXPECT_GT(longer.peak_live_bytes, 3 * shorter.peak_live_bytes);
}

TEST(TrainingTest, EvaluationsAndCheckpointsAddTheirOwnSizes) {
  const auto sizes = [](absl::string_view spec) {
    std::set<uint64_t> sizes;
    for (const TraceEvent& event : EventsOf(spec)) sizes.insert(event.bytes);
    return sizes;
  };
  const std::string plain =
      "gen:training,steps=2,layers=2,hidden=256,batch=5,seq=512";
  const auto without = sizes(plain + ",eval_every=0,checkpoint_every=0");
  const auto evaluated = sizes(plain + ",eval_every=2,checkpoint_every=0");
  const auto checkpointed = sizes(plain + ",eval_every=0,checkpoint_every=2");
  const uint64_t evaluated_logits = 2 * 5 * 512 * 50257 * 2;
  const uint64_t wide_layer = 12 * 256 * 256 * 4;
  EXPECT_EQ(without.count(wide_layer), 0u);
  EXPECT_GT(evaluated.size(), without.size());
  EXPECT_EQ(evaluated.count(evaluated_logits), 1u);
  EXPECT_EQ(checkpointed.count(wide_layer), 1u);
}

// Two layers and two micro-batches: a step is 2 * (2 * 42 + 6) + 2 * 4 = 188
// events. Each layer has two blocks of state, allocated before the first step.
constexpr int kStepEvents = 188;
constexpr int kStateEvents = 4;

TEST(TrainingTest, StepsBeginStepMsApartAndSpreadEvenly) {
  const std::vector<TraceEvent> events = EventsOf(
      "gen:training,steps=3,step_ms=376,layers=2,accumulate=2,eval_every=0,"
      "checkpoint_every=0");
  ASSERT_EQ(events.size(), 2u * kStateEvents + 3u * kStepEvents);
  // 376 ms / 188: an event every 2 ms.
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].time_us, static_cast<int64_t>(i) * 2000) << i;
  }
}

TEST(TrainingTest, AStepIdlesUntilTheNextBegins) {
  const std::vector<TraceEvent> events = EventsOf(
      "gen:training,steps=2,step_ms=1000,layers=2,accumulate=2,eval_every=0,"
      "checkpoint_every=0");
  // 1,000,000 us / 188 = 5319.1: the rest is left at the end of the step.
  const TraceEvent& first = events[kStateEvents];
  const TraceEvent& second = events[kStateEvents + kStepEvents];
  EXPECT_EQ(events[kStateEvents + 1].time_us - first.time_us, 5319);
  EXPECT_EQ(second.time_us - first.time_us, 1'000'000);
}

TEST(TrainingTest, ACheckpointDelaysTheNextStep) {
  const std::vector<TraceEvent> events = EventsOf(
      "gen:training,steps=2,step_ms=376,layers=2,accumulate=2,eval_every=0,"
      "checkpoint_every=1");
  // Each layer gathers, copies, drops what it gathered and later the copy.
  constexpr int kCheckpointEvents = 2 * 4;
  ASSERT_EQ(events.size(),
            2u * kStateEvents + 2u * (kStepEvents + kCheckpointEvents));
  EXPECT_EQ(events[kStateEvents + kStepEvents + kCheckpointEvents].time_us,
            (kStateEvents + kStepEvents + kCheckpointEvents) * 2000);
}

TEST(TrainingTest, DaysRunAllStepsThatBeginWithinThem) {
  // State takes 4 * 2 ms. 0.0001 days are 8.64 s: steps begin at 0.008 s +
  // k * 0.376 s, the last, k = 22, at 8.28 s.
  const std::vector<TraceEvent> events = EventsOf(
      "gen:training,days=0.0001,step_ms=376,layers=2,accumulate=2,"
      "eval_every=0,checkpoint_every=0");
  EXPECT_EQ(events.size(), 2u * kStateEvents + 23u * kStepEvents);
}

TEST(TrainingTest, ARunTooShortForAStepStillEnds) {
  // 24 layers' state takes 48 * 20 us, and the run 86.4 us.
  EXPECT_EQ(EventsOf("gen:training,days=0.000000001").size(), 2u * 48u);
}

TEST(TrainingTest, AStepWithMoreEventsThanMicrosecondsTakesLonger) {
  const std::vector<TraceEvent> events = EventsOf(
      "gen:training,steps=1,step_ms=1,layers=24,accumulate=4,eval_every=0,"
      "checkpoint_every=0");
  EXPECT_EQ(events.back().time_us, static_cast<int64_t>(events.size()) - 1);
}

TEST(TrainingTest, RefusesKeysThatContradictOrAskForTooMuch) {
  EXPECT_THAT(OpenTrace("gen:training,steps=5,days=1"),
              StatusIs(kInvalid, HasSubstr("steps or key days, not both")));
  EXPECT_THAT(OpenTrace("gen:training,days=-1"),
              StatusIs(kInvalid, HasSubstr("key days='-1'")));
  EXPECT_THAT(OpenTrace("gen:training,layers=1000,hidden=100000,heads=1000,"
                        "batch=10000,seq=100000"),
              StatusIs(kInvalid, HasSubstr("more than 4 EiB")));
  EXPECT_THAT(OpenTrace("gen:training,probes=1"),
              StatusIs(kInvalid, HasSubstr("unknown key 'probes'")));
}

}  // namespace
}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/generators.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/traces/periodic.h"
#include "bench/traces/sawtooth.h"
#include "bench/traces/synthetic_requests.h"
#include "bench/traces/training.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::vector<TraceEvent> EventsOf(absl::string_view spec) {
  absl::StatusOr<std::unique_ptr<TraceSource>> trace = OpenTrace(spec);
  EXPECT_TRUE(trace.ok()) << trace.status();
  if (!trace.ok()) return {};
  EXPECT_EQ((*trace)->name(), spec);
  return Gather(trace->get());
}

// Live bytes at each probe.
std::vector<uint64_t> LiveAtProbes(const std::vector<TraceEvent>& events) {
  std::vector<uint64_t> probes;
  uint64_t live = 0;
  for (const TraceEvent& event : events) {
    if (event.kind == TraceEventKind::kAllocate) live += event.bytes;
    if (event.kind == TraceEventKind::kFree) live -= event.bytes;
    if (event.kind == TraceEventKind::kProbe) probes.push_back(live);
  }
  return probes;
}

class GeneratorTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GeneratorTest, RewindPlaysTheSameAgainEvenFromTheMiddle) {
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            OpenTrace(GetParam()));
  const std::vector<TraceEvent> events = Gather(trace.get());
  EXPECT_GT(events.size(), 300u);
  FIRN_ASSERT_OK(trace->Rewind());
  TraceEvent event;
  for (size_t i = 0; i < events.size() / 3; ++i) {
    ASSERT_TRUE(*trace->Next(&event));
  }
  FIRN_ASSERT_OK(trace->Rewind());
  EXPECT_EQ(Gather(trace.get()), events);
}

TEST_P(GeneratorTest, IdsAreSmall) {
  const TraceTotals totals = TotalsOf(EventsOf(GetParam()));
  EXPECT_EQ(totals.greatest_id + 1, totals.most_live_blocks);
}

INSTANTIATE_TEST_SUITE_P(
    All, GeneratorTest,
    ::testing::Values("gen:kv,days=0.002", "gen:periodic,live=64MiB",
                      "gen:sawtooth,live=64MiB,cycles=5",
                      "gen:training,steps=6,layers=4,eval_every=2,"
                      "checkpoint_every=3"));

TEST(GeneratorsTest, AnUnknownNameListsThoseThereAre) {
  EXPECT_THAT(
      OpenTrace("gen:kvv,days=3"),
      StatusIs(kInvalid, Eq("trace 'gen:kvv': no such generator; there are "
                            "gen:kv, gen:periodic, gen:sawtooth, "
                            "gen:training")));
}

TEST(GeneratorsTest, AnotherSeedGivesAnotherTrace) {
  for (const char* spec :
       {"gen:kv,days=0.001", "gen:sawtooth,live=64MiB,cycles=2",
        "gen:training,steps=2,layers=2"}) {
    EXPECT_EQ(EventsOf(spec), EventsOf(absl::StrCat(spec, ",seed=1"))) << spec;
    EXPECT_NE(EventsOf(spec), EventsOf(absl::StrCat(spec, ",seed=2"))) << spec;
  }
}

TEST(SawtoothTest, FillsAndFreesNineTenthsAtRandom) {
  const std::vector<TraceEvent> events =
      EventsOf("gen:sawtooth,live=256MiB,min=4KiB,max=1MiB,cycles=7");
  const TraceTotals totals = TotalsOf(events);
  EXPECT_EQ(totals.end_live_bytes, 0u);
  EXPECT_LE(totals.peak_live_bytes, uint64_t{256} << 20);
  EXPECT_GE(totals.peak_live_bytes, uint64_t{255} << 20);
  const std::vector<uint64_t> probes = LiveAtProbes(events);
  EXPECT_EQ(probes.size(), 7u);
  for (const uint64_t live : probes) {
    EXPECT_NEAR(static_cast<double>(live) / (1 << 20), 25.6, 8);
  }
}

TEST(SawtoothTest, SizesAreLogUniform) {
  int below = 0;
  int all = 0;
  for (const TraceEvent& event :
       EventsOf("gen:sawtooth,live=256MiB,min=4KiB,max=1MiB,cycles=7")) {
    if (event.kind != TraceEventKind::kAllocate) continue;
    EXPECT_GE(event.bytes, 4u << 10);
    EXPECT_LE(event.bytes, 1u << 20);
    if (event.bytes < 64 << 10) ++below;
    ++all;
  }
  EXPECT_NEAR(static_cast<double>(below) / all, 0.5, 0.03);
}

TEST(SawtoothTest, RefusesSizesOutOfOrder) {
  EXPECT_THAT(OpenTrace("gen:sawtooth,min=2MiB,max=1MiB"),
              StatusIs(kInvalid, HasSubstr("min, max and live")));
  EXPECT_THAT(OpenTrace("gen:sawtooth,live=1MiB"),
              StatusIs(kInvalid, HasSubstr("min, max and live")));
}

TEST(PeriodicTest, OneInPSurvivesAndLargeBlocksFillTheRest) {
  const std::vector<TraceEvent> events = EventsOf(
      "gen:periodic,live=64MiB,block_bytes=64KiB,period=32,refill=20MiB");
  // 1024 blocks, of which every 32nd stays: 32 of 64 KiB. Three blocks of
  // 20 MiB fit beside them.
  EXPECT_THAT(LiveAtProbes(events),
              ElementsAre(2u << 20, (2u << 20) + (60u << 20)));
  const TraceTotals totals = TotalsOf(events);
  EXPECT_EQ(totals.allocs, 1024u + 3u);
  EXPECT_EQ(totals.end_live_bytes, 0u);
  EXPECT_EQ(totals.peak_live_bytes, 64u << 20);
  for (size_t i = 1024; i < 1024 + 992; ++i) {
    EXPECT_EQ(events[i].kind, TraceEventKind::kFree);
    EXPECT_NE(events[i].id % 32, 0u);
  }
}

TEST(PeriodicTest, RunsOneRoundForEachSizeAndPeriod) {
  EXPECT_EQ(LiveAtProbes(EventsOf("gen:periodic,live=64MiB,refill=1MiB,"
                                  "block_bytes=64KiB+1MiB,period=2+4+8"))
                .size(),
            2u * 3u * 2u);
  EXPECT_THAT(OpenTrace("gen:periodic,live=19MiB"),
              StatusIs(kInvalid, HasSubstr("key live must be at least")));
}

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

TEST(SyntheticRequestsTest, AnHourHasTheDocumentedRateAndLengths) {
  const std::vector<Request> log = SyntheticRequests(1);
  EXPECT_NEAR(static_cast<double>(log.size()), 18'000, 400);
  double context = 0;
  double generated = 0;
  for (const Request& request : log) {
    EXPECT_GE(request.context_tokens, 1u);
    EXPECT_LE(request.context_tokens, 16'384u);
    EXPECT_LE(request.generated_tokens, 1'000u);
    context += request.context_tokens;
    generated += request.generated_tokens;
  }
  EXPECT_NEAR(context / static_cast<double>(log.size()), 1130, 60);
  EXPECT_NEAR(generated / static_cast<double>(log.size()), 195, 15);
}

}  // namespace
}  // namespace firn::bench

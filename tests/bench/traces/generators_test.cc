// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/generators.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/traces/periodic.h"
#include "bench/traces/sawtooth.h"
#include "bench/traces/synthetic_requests.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/generator_testing.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

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
    ::testing::Values("gen:kv,days=0.002", "gen:mixed,days=0.15,live=64MiB",
                      "gen:periodic,live=64MiB",
                      "gen:robson,live=64MiB,max=1MiB",
                      "gen:same_offset,live=64MiB",
                      "gen:steady,steps=3,layers=4",
                      "gen:sawtooth,live=64MiB,cycles=5",
                      "gen:training,steps=6,layers=4,eval_every=2,"
                      "checkpoint_every=3"));

TEST(GeneratorsTest, AnUnknownNameListsThoseThereAre) {
  EXPECT_THAT(
      OpenTrace("gen:kvv,days=3"),
      StatusIs(kInvalid, Eq("trace 'gen:kvv': no such generator; there are "
                            "gen:kv, gen:mixed, gen:periodic, gen:robson, "
                            "gen:same_offset, gen:sawtooth, gen:steady, "
                            "gen:training")));
}

TEST(GeneratorsTest, DefaultsGiveTheSameBytesOnEveryMachine) {
  struct Case {
    const char* spec;
    uint64_t checksum;
  };
  // Whoever changes one of these changes what figures of old mean.
  for (const Case& c : {Case{"gen:periodic", 0xaed20c781189e426u},
                        Case{"gen:robson", 0x3b3c4c5693b4eabcu},
                        Case{"gen:same_offset", 0xd1ac76756c0077edu},
                        Case{"gen:sawtooth", 0xdb5c52e739159302u},
                        Case{"gen:steady", 0x934cfa6c692e6e7eu},
                        Case{"gen:training", 0xdcfddd74d7c2d906u}}) {
    FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                              OpenTrace(c.spec));
    EXPECT_EQ(ChecksumOf(trace.get()), c.checksum) << c.spec;
  }
}

TEST(GeneratorsTest, RefusesMoreBlocksThanHostMemoryIsMeantFor) {
  for (const char* spec :
       {"gen:periodic,live=1TiB,block_bytes=1B", "gen:periodic,refill=1B",
        "gen:robson,live=1TiB,min=1B",
        "gen:same_offset,live=1TiB,block_bytes=1B",
        "gen:sawtooth,live=1TiB,min=1B,max=1KiB"}) {
    EXPECT_THAT(OpenTrace(spec),
                StatusIs(kInvalid, HasSubstr("more than 4194304; give a "
                                             "larger")))
        << spec;
  }
}

TEST(GeneratorsTest, AnotherSeedGivesAnotherTrace) {
  for (const char* spec :
       {"gen:kv,days=0.001", "gen:mixed,days=0.02",
        "gen:sawtooth,live=64MiB,cycles=2", "gen:training,steps=2,layers=2"}) {
    EXPECT_EQ(EventsOf(spec), EventsOf(absl::StrCat(spec, ",seed=1"))) << spec;
    EXPECT_NE(EventsOf(spec), EventsOf(absl::StrCat(spec, ",seed=2"))) << spec;
  }
}

TEST(GeneratorsTest, ASeedChangesNothingWhereNothingIsDrawn) {
  for (const char* spec :
       {"gen:periodic,live=64MiB", "gen:robson,live=64MiB,max=1MiB",
        "gen:same_offset,live=64MiB", "gen:steady,steps=2,layers=2"}) {
    const std::string seeded = absl::StrCat(spec, ",seed=2");
    EXPECT_EQ(EventsOf(seeded), EventsOf(spec)) << spec;
    EXPECT_THAT(OpenTrace(absl::StrCat(spec, ",seed=two")),
                StatusIs(kInvalid, HasSubstr("key seed='two'")));
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

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_server.h"

#include <cstdint>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One model, 10 tokens a second, 16 tokens a block; nothing is retained.
KvOptions PlainOptions() {
  KvOptions options;
  options.block_bytes = {100};
  options.decode_tps = 10;
  options.retain = 0;
  options.hit = 0;
  return options;
}

std::vector<TraceEvent> Serve(std::vector<Request> requests,
                              const KvOptions& options) {
  KvServer server("kv", std::make_unique<ListedRequests>(std::move(requests)),
                  options);
  std::vector<TraceEvent> events = Gather(&server);
  FIRN_EXPECT_OK(server.Rewind());
  EXPECT_EQ(Gather(&server), events);
  return events;
}

// Counts events up to the end or an error.
absl::Status Drain(KvServer* server, uint64_t* events) {
  TraceEvent event;
  for (*events = 0;; ++*events) {
    absl::StatusOr<bool> found = server->Next(&event);
    if (!found.ok() || !*found) return found.status();
  }
}

TEST(KvServerTest, APromptComesAtOnceAndItsAnswerBlockByBlock) {
  // 20 tokens fill 2 blocks up to 32: the 13th token of the answer needs a
  // third, the 29th a fourth, and the 30th is the last.
  EXPECT_THAT(
      Serve({{0, 20, 30}}, PlainOptions()),
      ElementsAre(Allocated(0, 0, 100), Allocated(0, 1, 100),
                  Allocated(1'300'000, 2, 100), Allocated(2'900'000, 3, 100),
                  Freed(3'000'000, 3, 100), Freed(3'000'000, 2, 100),
                  Freed(3'000'000, 1, 100), Freed(3'000'000, 0, 100)));
}

TEST(KvServerTest, RequestsOverlapInOrderOfTime) {
  EXPECT_THAT(
      Serve({{0, 16, 10}, {500'000, 16, 2}, {1'000'000, 1, 0}}, PlainOptions()),
      ElementsAre(Allocated(0, 0, 100), Allocated(100'000, 1, 100),
                  Allocated(500'000, 2, 100), Allocated(600'000, 3, 100),
                  Freed(700'000, 3, 100), Freed(700'000, 2, 100),
                  // What ends comes before what arrives.
                  Freed(1'000'000, 1, 100), Freed(1'000'000, 0, 100),
                  Allocated(1'000'000, 0, 100), Freed(1'000'000, 0, 100)));
}

TEST(KvServerTest, DilationStretchesAnswers) {
  KvOptions options = PlainOptions();
  options.dilate = 30;
  EXPECT_THAT(Serve({{0, 16, 1}}, options),
              ElementsAre(Allocated(0, 0, 100), Allocated(3'000'000, 1, 100),
                          Freed(3'000'000, 1, 100), Freed(3'000'000, 0, 100)));
}

TEST(KvServerTest, RetainedBlocksStayAndTheLeastRecentlyUsedGoesFirst) {
  KvOptions options = PlainOptions();
  options.retain = 1;
  options.retain_budget_bytes = 300;
  EXPECT_THAT(Serve({{0, 16, 0}, {1, 32, 0}, {2, 17, 0}}, options),
              ElementsAre(Allocated(0, 0, 100), Allocated(1, 1, 100),
                          Allocated(1, 2, 100), Allocated(2, 3, 100),
                          Allocated(2, 4, 100), Freed(2, 0, 100),
                          Freed(2, 2, 100), Freed(2, 1, 100)));
}

TEST(KvServerTest, WithoutBudgetNothingStays) {
  KvOptions options = PlainOptions();
  options.retain = 1;
  options.retain_budget_bytes = 0;
  EXPECT_THAT(Serve({{0, 16, 0}}, options),
              ElementsAre(Allocated(0, 0, 100), Freed(0, 0, 100)));
}

TEST(KvServerTest, AHitTakesARetainedPrefixOver) {
  KvOptions options = PlainOptions();
  options.retain = 1;
  options.hit = 1;
  // The second request grows the first one's block to three; the third needs
  // one of those.
  EXPECT_THAT(
      Serve({{0, 16, 0}, {1, 48, 0}, {2, 3, 0}}, options),
      ElementsAre(Allocated(0, 0, 100), Allocated(1, 1, 100),
                  Allocated(1, 2, 100), Freed(2, 2, 100), Freed(2, 1, 100)));
}

TEST(KvServerTest, APrefixIsHitByRequestsOfItsModelAlone) {
  KvOptions options = PlainOptions();
  options.block_bytes = {100, 200};
  options.retain = 1;
  options.hit = 1;
  std::vector<Request> requests;
  for (int64_t i = 0; i < 50; ++i) requests.push_back({i, 16, 0});
  // Each model allocates once and hands its block on.
  const TraceTotals totals = TotalsOf(Serve(std::move(requests), options));
  EXPECT_EQ(totals.allocs, 2u);
  EXPECT_EQ(totals.frees, 0u);
  EXPECT_EQ(totals.end_live_bytes, 300u);
}

TEST(KvServerTest, ModelsAreDrawnEvenly) {
  KvOptions options = PlainOptions();
  options.block_bytes = {1, 2, 3};
  std::vector<Request> requests;
  for (int64_t i = 0; i < 3000; ++i) requests.push_back({i, 16, 0});
  std::vector<int> served(4, 0);
  for (const TraceEvent& event : Serve(std::move(requests), options)) {
    if (event.kind == TraceEventKind::kAllocate) ++served[event.bytes];
  }
  for (size_t bytes = 1; bytes <= 3; ++bytes) {
    EXPECT_NEAR(served[bytes], 1000, 80);
  }
}

TEST(KvServerTest, AShareOfTheRequestsIsServedThatMuchSlower) {
  KvServer server("kv",
                  std::make_unique<ListedRequests>(
                      std::vector<Request>{{0, 16, 1}, {100'000, 16, 0}}),
                  PlainOptions(), 0.25);
  EXPECT_THAT(Gather(&server),
              ElementsAre(Allocated(0, 0, 100), Allocated(100'000, 1, 100),
                          Freed(100'000, 1, 100), Allocated(400'000, 1, 100),
                          Freed(400'000, 1, 100), Freed(400'000, 0, 100)));
}

TEST(KvServerTest, TheSameSeedGivesTheSameEventsAndAnotherSeedOthers) {
  KvOptions options;
  std::vector<Request> requests;
  for (int64_t i = 0; i < 2000; ++i) {
    requests.push_back({i * 50'000, static_cast<uint32_t>(i % 700 + 1),
                        static_cast<uint32_t>(i % 90)});
  }
  const std::vector<TraceEvent> first = Serve(requests, options);
  EXPECT_EQ(Serve(requests, options), first);
  options.seed = 2;
  EXPECT_NE(Serve(requests, options), first);
}

TEST(KvServerTest, TheLongestAnswerKeepsTimesInRange) {
  KvOptions options = PlainOptions();
  options.decode_tps = 1e-3;
  options.dilate = 1e6;
  options.block_tokens = 1'000'000;
  const std::vector<TraceEvent> events =
      Serve({{0, 1, static_cast<uint32_t>(kMaxRequestTokens)}}, options);
  EXPECT_EQ(events.back().time_us, 1'000'000'000'000'000'000);
}

// One model of 10 bytes a token, 10 tokens a second; nothing is retained.
KvOptions SequenceOptions() {
  KvOptions options = PlainOptions();
  options.layout = KvLayout::kSequences;
  options.token_bytes = {10};
  return options;
}

TEST(KvServerTest, ASequencesPromptIsOneAllocationRoundedUpTo16Tokens) {
  // 20 tokens round up to 32: the 13th token of the answer needs 16 more, the
  // 29th again, and the 30th is the last.
  EXPECT_THAT(
      Serve({{0, 20, 30}}, SequenceOptions()),
      ElementsAre(Allocated(0, 0, 320), Allocated(1'300'000, 1, 160),
                  Allocated(2'900'000, 2, 160), Freed(3'000'000, 2, 160),
                  Freed(3'000'000, 1, 160), Freed(3'000'000, 0, 320)));
}

TEST(KvServerTest, ASequenceWithoutPromptHasItsAnswerAlone) {
  EXPECT_THAT(Serve({{0, 0, 1}}, SequenceOptions()),
              ElementsAre(Allocated(100'000, 0, 160), Freed(100'000, 0, 160)));
  EXPECT_THAT(Serve({{0, 0, 0}}, SequenceOptions()), ElementsAre());
}

TEST(KvServerTest, SequencesDoNotGoByBlocks) {
  KvOptions options = SequenceOptions();
  options.block_bytes = {1, 2, 3};
  options.block_tokens = 1000;
  EXPECT_THAT(Serve({{0, 1, 0}}, options),
              ElementsAre(Allocated(0, 0, 160), Freed(0, 0, 160)));
}

TEST(KvServerTest, ARetainedSequenceIsTakenOverAndTheRestIsOneAllocation) {
  KvOptions options = SequenceOptions();
  options.retain = 1;
  options.hit = 1;
  // The first leaves 2 units and 1. The second's prompt of 6 takes both and
  // adds 3 at once, and its answer 1.
  EXPECT_THAT(
      Serve({{0, 32, 1}, {1'000'000, 81, 16}}, options),
      ElementsAre(Allocated(0, 0, 320), Allocated(100'000, 1, 160),
                  Allocated(1'000'000, 2, 480), Allocated(2'600'000, 3, 160)));
}

TEST(KvServerTest, OfARetainedSequenceOnlyWhatFitsWholeIsTakenOver) {
  KvOptions options = SequenceOptions();
  options.retain = 1;
  options.hit = 1;
  // 2 units and 1 are there. A prompt of 2 keeps the first; one of 1 has no use
  // for it.
  EXPECT_THAT(
      Serve({{0, 32, 1}, {1'000'000, 32, 0}, {2'000'000, 16, 0}}, options),
      ElementsAre(Allocated(0, 0, 320), Allocated(100'000, 1, 160),
                  Freed(1'000'000, 1, 160), Freed(2'000'000, 0, 320),
                  Allocated(2'000'000, 0, 160)));
}

TEST(KvServerTest, RetainedSequencesStayWithinTheBudget) {
  KvOptions options = SequenceOptions();
  options.retain = 1;
  options.retain_budget_bytes = 480;
  EXPECT_THAT(Serve({{0, 16, 0}, {1, 32, 0}, {2, 1, 0}}, options),
              ElementsAre(Allocated(0, 0, 160), Allocated(1, 1, 320),
                          Allocated(2, 2, 160), Freed(2, 0, 160)));
}

TEST(KvServerTest, ARequestOfMoreBlocksThanMemoryHoldsIsAnError) {
  KvOptions options = PlainOptions();
  options.block_tokens = 1;
  KvServer most("kv",
                std::make_unique<ListedRequests>(
                    std::vector<Request>{{0, (1 << 20) - 1, 1}}),
                options);
  uint64_t events = 0;
  FIRN_EXPECT_OK(Drain(&most, &events));
  EXPECT_EQ(events, uint64_t{2} << 20);
  KvServer more(
      "kv,block_tokens=1",
      std::make_unique<ListedRequests>(std::vector<Request>{{2, 1 << 20, 1}}),
      options);
  EXPECT_THAT(Drain(&more, &events),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "kv,block_tokens=1: a request of 1048577 tokens needs "
                       "1048577 blocks of 1 tokens; at most 1048576, so give a "
                       "larger block_tokens"));
}

TEST(KvServerTest, MoreLiveBytesThanMemoryCanHaveAreAnError) {
  KvOptions options = PlainOptions();
  options.block_bytes = {uint64_t{1} << 40};
  options.decode_tps = 1e-3;
  options.block_tokens = 1;
  std::vector<Request> requests(9, {0, 1 << 19, 1});
  KvServer server("kv", std::make_unique<ListedRequests>(requests), options);
  uint64_t events = 0;
  EXPECT_THAT(Drain(&server, &events),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("bytes live at once")));
}

TEST(KvServerTest, AnAnswerThatGrowsBeyondTheLimitIsAnErrorToo) {
  KvOptions options = PlainOptions();
  options.block_bytes = {uint64_t{1} << 40};
  options.block_tokens = 1;
  // The prompts come to 2^22 blocks of 2^40 bytes: the most that may be live.
  std::vector<Request> requests(8, {0, 1 << 19, 0});
  KvServer most("kv", std::make_unique<ListedRequests>(requests), options);
  uint64_t events = 0;
  FIRN_EXPECT_OK(Drain(&most, &events));
  requests.assign(8, {0, 1 << 19, 1});
  KvServer more("kv", std::make_unique<ListedRequests>(requests), options);
  EXPECT_THAT(Drain(&more, &events),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "kv: more than 4611686018427387904 bytes live at once; "
                       "give smaller block_bytes"));
}

TEST(KvServerTest, WhatIsTooMuchOfSequencesHasAdviceOfTheirs) {
  KvOptions options = SequenceOptions();
  options.token_bytes = {uint64_t{1} << 30};
  uint64_t events = 0;
  const uint32_t prompt = 4'000'000'000;
  KvServer bytes("kv",
                 std::make_unique<ListedRequests>(
                     std::vector<Request>{{0, prompt, 1}, {0, prompt, 1}}),
                 options);
  EXPECT_THAT(Drain(&bytes, &events),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("bytes live at once; give smaller "
                                 "token_bytes")));
  KvServer answer("kv",
                  std::make_unique<ListedRequests>(
                      std::vector<Request>{{0, 0, 16'777'217}}),
                  options);
  EXPECT_THAT(Drain(&answer, &events),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "kv: an answer of 16777217 tokens needs 1048577 "
                       "allocations of 16 tokens; at most 1048576, so give "
                       "shorter answers"));
}

TEST(KvServerTest, APromptOfASequenceIsOneAllocationHoweverLong) {
  // 1.25 million units.
  EXPECT_THAT(
      Serve({{0, 20'000'000, 0}}, SequenceOptions()),
      ElementsAre(Allocated(0, 0, 200'000'000), Freed(0, 0, 200'000'000)));
}

// A request without a prompt each microsecond, without end.
class EmptyPrompts : public RequestSource {
 public:
  absl::StatusOr<bool> Next(Request* request) override {
    *request = {time_us_++, 0, 1};
    return true;
  }
  absl::Status Rewind() override {
    time_us_ = 0;
    return absl::OkStatus();
  }

 private:
  int64_t time_us_ = 0;
};

TEST(KvServerTest, RequestsInFlightAreLimitedEvenIfTheyHoldNothing) {
  KvOptions options = PlainOptions();
  options.decode_tps = 1e-3;
  KvServer server("kv", std::make_unique<EmptyPrompts>(), options);
  uint64_t events = 0;
  EXPECT_THAT(Drain(&server, &events),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "kv: more than 1048576 requests in flight at once; give "
                       "a larger decode_tps"));
}

// Of this process's address space.
uint64_t ReservedBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  return pages * 4096;
}

TEST(KvServerTest, AnAnswerTakesNoMemoryBeforeItIsThere) {
  KvOptions options = PlainOptions();
  options.decode_tps = 1e-3;
  KvServer server("kv",
                  std::make_unique<ListedRequests>(
                      std::vector<Request>(2'000, {0, 16, kMaxRequestTokens})),
                  options);
  const uint64_t before = ReservedBytes();
  TraceEvent event;
  for (int i = 0; i < 2'000; ++i) ASSERT_TRUE(*server.Next(&event));
  // In full they would have 5 MB each.
  EXPECT_LT(ReservedBytes() - before, uint64_t{200} << 20);
}

TEST(KvServerTest, ALongRequestThatEndedHoldsNoMemory) {
  if (::firn::testing::kUnderAddressSanitizer ||
      ::firn::testing::kUnderThreadSanitizer) {
    GTEST_SKIP() << "sanitizers keep memory that was freed";
  }
  // 300 times a long prompt that ends at once, and a short one that takes its
  // place and stays, with a block of it where prefixes are taken over.
  std::vector<Request> requests;
  for (int64_t i = 0; i < 300; ++i) {
    requests.push_back({2 * i, 1 << 20, 0});
    requests.push_back({2 * i + 1, 16, 1});
  }
  for (const double retain : {0, 1}) {
    KvOptions options = PlainOptions();
    options.retain = options.hit = retain;
    options.decode_tps = 1e-3;
    KvServer server("kv", std::make_unique<ListedRequests>(requests), options);
    const uint64_t before = ReservedBytes();
    TraceEvent event;
    do {
      ASSERT_TRUE(*server.Next(&event));
    } while (event.time_us < 599);
    // 2^16 blocks have half a MiB.
    EXPECT_LT(ReservedBytes() - before, uint64_t{50} << 20) << retain;
  }
}

TEST(KvServerTest, ASampledTraceEndsWithItsDays) {
  KvOptions options = PlainOptions();
  options.days = 2.0 / 86'400;
  const std::vector<Request> requests = {{0, 16, 1}, {1'900'000, 16, 1}};
  // Of all requests the last end is at 2 s.
  KvServer all("kv", std::make_unique<ListedRequests>(requests), options);
  EXPECT_EQ(Gather(&all).back().time_us, 2'000'000);
  // Half of them decode for 0.2 s: that of the second would end at 2.1 s.
  KvServer half("kv", std::make_unique<ListedRequests>(requests), options, 0.5);
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(Gather(&half),
                ElementsAre(Allocated(0, 0, 100), Allocated(200'000, 1, 100),
                            Freed(200'000, 1, 100), Freed(200'000, 0, 100),
                            Allocated(1'900'000, 0, 100)));
    TraceEvent event;
    EXPECT_FALSE(*half.Next(&event)) << "the end is the end";
    FIRN_ASSERT_OK(half.Rewind());
  }
}

TEST(MostKvEventsTest, CountsWhatARequestAllocatesAndFrees) {
  KvOptions options = PlainOptions();
  EXPECT_EQ(MostKvEvents({0, 20, 30}, options), 8u);
  EXPECT_EQ(MostKvEvents({0, 0, 0}, options), 0u);
  options = SequenceOptions();
  EXPECT_EQ(MostKvEvents({0, 20, 30}, options), 6u);
  EXPECT_EQ(MostKvEvents({0, 0, 16}, options), 2u);
  EXPECT_EQ(MostKvEvents({0, 160, 0}, options), 2u);
}

}  // namespace
}  // namespace firn::bench

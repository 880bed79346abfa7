// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_traffic.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "bench/traces/clock_time.h"
#include "bench/traces/synthetic_requests.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::testing::ElementsAre;

class GivenRequests : public RequestSource {
 public:
  explicit GivenRequests(std::vector<Request> requests)
      : requests_(std::move(requests)) {}
  absl::StatusOr<bool> Next(Request* request) override {
    if (next_ == requests_.size()) return false;
    *request = requests_[next_++];
    return true;
  }
  absl::Status Rewind() override {
    next_ = 0;
    return absl::OkStatus();
  }

 private:
  std::vector<Request> requests_;
  size_t next_ = 0;
};

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
  KvTraffic traffic("kv", std::make_unique<GivenRequests>(std::move(requests)),
                    options);
  std::vector<TraceEvent> events = Gather(&traffic);
  FIRN_EXPECT_OK(traffic.Rewind());
  EXPECT_EQ(Gather(&traffic), events);
  return events;
}

// Over the first `end_us`; counts all events.
double MeanLiveBytes(TraceSource* trace, int64_t end_us, uint64_t* events) {
  double live = 0;
  double integral = 0;
  int64_t time_us = 0;
  TraceEvent event;
  for (*events = 0; *trace->Next(&event); ++*events) {
    const int64_t now_us = std::min(event.time_us, end_us);
    integral += live * static_cast<double>(now_us - time_us);
    time_us = now_us;
    const double bytes = static_cast<double>(event.bytes);
    live += event.kind == TraceEventKind::kAllocate ? bytes : -bytes;
  }
  return integral / static_cast<double>(end_us);
}

absl::StatusOr<std::unique_ptr<TraceSource>> OpenLog(
    const std::vector<Request>& log, const KvOptions& options) {
  return OpenKvTrafficOfLog("kv", std::make_unique<ListedRequests>(log),
                            options);
}

TEST(KvTrafficTest, APromptComesAtOnceAndItsAnswerBlockByBlock) {
  // 20 tokens fill 2 blocks up to 32: the 13th token of the answer needs a
  // third, the 29th a fourth, and the 30th is the last.
  EXPECT_THAT(
      Serve({{0, 20, 30}}, PlainOptions()),
      ElementsAre(Allocated(0, 0, 100), Allocated(0, 1, 100),
                  Allocated(1'300'000, 2, 100), Allocated(2'900'000, 3, 100),
                  Freed(3'000'000, 3, 100), Freed(3'000'000, 2, 100),
                  Freed(3'000'000, 1, 100), Freed(3'000'000, 0, 100)));
}

TEST(KvTrafficTest, RequestsOverlapInOrderOfTime) {
  EXPECT_THAT(
      Serve({{0, 16, 10}, {500'000, 16, 2}, {1'000'000, 1, 0}}, PlainOptions()),
      ElementsAre(Allocated(0, 0, 100), Allocated(100'000, 1, 100),
                  Allocated(500'000, 2, 100), Allocated(600'000, 3, 100),
                  Freed(700'000, 3, 100), Freed(700'000, 2, 100),
                  // What ends comes before what arrives.
                  Freed(1'000'000, 1, 100), Freed(1'000'000, 0, 100),
                  Allocated(1'000'000, 0, 100), Freed(1'000'000, 0, 100)));
}

TEST(KvTrafficTest, DilationStretchesAnswers) {
  KvOptions options = PlainOptions();
  options.dilate = 30;
  EXPECT_THAT(Serve({{0, 16, 1}}, options),
              ElementsAre(Allocated(0, 0, 100), Allocated(3'000'000, 1, 100),
                          Freed(3'000'000, 1, 100), Freed(3'000'000, 0, 100)));
}

TEST(KvTrafficTest, RetainedBlocksStayAndTheLeastRecentlyUsedGoesFirst) {
  KvOptions options = PlainOptions();
  options.retain = 1;
  options.retain_budget_bytes = 300;
  EXPECT_THAT(Serve({{0, 16, 0}, {1, 32, 0}, {2, 17, 0}}, options),
              ElementsAre(Allocated(0, 0, 100), Allocated(1, 1, 100),
                          Allocated(1, 2, 100), Allocated(2, 3, 100),
                          Allocated(2, 4, 100), Freed(2, 0, 100),
                          Freed(2, 2, 100), Freed(2, 1, 100)));
}

TEST(KvTrafficTest, WithoutBudgetNothingStays) {
  KvOptions options = PlainOptions();
  options.retain = 1;
  options.retain_budget_bytes = 0;
  EXPECT_THAT(Serve({{0, 16, 0}}, options),
              ElementsAre(Allocated(0, 0, 100), Freed(0, 0, 100)));
}

TEST(KvTrafficTest, AHitTakesARetainedPrefixOver) {
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

TEST(KvTrafficTest, APrefixIsHitByRequestsOfItsModelAlone) {
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

TEST(KvTrafficTest, ModelsAreDrawnEvenly) {
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

TEST(KvTrafficTest, AShareOfRequestsIsServedThatMuchSlower) {
  std::vector<Request> requests;
  for (int64_t i = 0; i < 1000; ++i) requests.push_back({i * 1000, 16, 10});
  KvTraffic traffic("kv", std::make_unique<GivenRequests>(requests),
                    PlainOptions(), 0.25);
  const std::vector<TraceEvent> events = Gather(&traffic);
  EXPECT_NEAR(static_cast<double>(TotalsOf(events).allocs), 500, 60);
  // The last answers take 4 seconds instead of one.
  EXPECT_NEAR(static_cast<double>(events.back().time_us), 5'000'000, 50'000);
}

TEST(KvTrafficTest, TheTargetNumberOfEventsIsMetAtTheSameConcurrency) {
  const std::vector<Request> log = SyntheticRequests(1);
  KvOptions options;
  options.days = 0.25;
  // Retained prefixes would need longer to fill their budget.
  options.retain = 0;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> whole,
                            OpenLog(log, options));
  options.events = 300'000;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> sampled,
                            OpenLog(log, options));
  uint64_t all_events = 0;
  uint64_t events = 0;
  const double all_live =
      MeanLiveBytes(whole.get(), kUsPerDay / 4, &all_events);
  const double live = MeanLiveBytes(sampled.get(), kUsPerDay / 4, &events);
  EXPECT_GT(all_events, 5'000'000u);
  EXPECT_NEAR(static_cast<double>(events), 300'000, 15'000);
  EXPECT_NEAR(live / all_live, 1, 0.1);
}

TEST(KvTrafficTest, ATargetBeyondWhatThereIsChangesNothing) {
  const std::vector<Request> log = {{0, 100, 100}, {50'000'000, 10, 20}};
  KvOptions options = PlainOptions();
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> whole,
                            OpenLog(log, options));
  options.events = 1'000'000'000;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> capped,
                            OpenLog(log, options));
  TraceEvent a;
  TraceEvent b;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(*whole->Next(&a));
    ASSERT_TRUE(*capped->Next(&b));
    ASSERT_EQ(a, b);
  }
}

TEST(KvTrafficTest, TheSameSeedGivesTheSameEventsAndAnotherSeedOthers) {
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

TEST(KvTrafficTest, TheLongestAnswerKeepsTimesInRange) {
  KvOptions options = PlainOptions();
  options.decode_tps = 1e-3;
  options.dilate = 1e6;
  options.block_tokens = 1'000'000;
  const std::vector<TraceEvent> events =
      Serve({{0, 1, static_cast<uint32_t>(kMaxRequestTokens)}}, options);
  EXPECT_EQ(events.back().time_us, 1'000'000'000'000'000'000);
}

}  // namespace
}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_traffic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/traces/clock_time.h"
#include "bench/traces/seeded_random.h"
#include "bench/traces/synthetic_requests.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;

constexpr int64_t kQuarterDayUs = kUsPerDay / 4;

struct Load {
  double events = 0;  // all of them
  double mean_live_bytes = 0;
};

// The mean is over the first quarter of a day.
Load LoadOf(TraceSource* trace) {
  Load load;
  double live = 0;
  double integral = 0;
  int64_t time_us = 0;
  TraceEvent event;
  while (*trace->Next(&event)) {
    ++load.events;
    const int64_t now_us = std::min(event.time_us, kQuarterDayUs);
    integral += live * static_cast<double>(now_us - time_us);
    time_us = now_us;
    const double bytes = static_cast<double>(event.bytes);
    live += event.kind == TraceEventKind::kAllocate ? bytes : -bytes;
  }
  load.mean_live_bytes = integral / static_cast<double>(kQuarterDayUs);
  return load;
}

absl::StatusOr<std::unique_ptr<TraceSource>> OpenLog(
    const std::vector<Request>& log, const KvOptions& options) {
  return OpenKvTrafficOfLog("kv", std::make_unique<ListedRequests>(log),
                            options);
}

// A quarter of a day of `log` and at `events` events: what is live on the mean
// of the second, in units of the first.
void ExpectTargetMetAtTheSameConcurrency(const std::vector<Request>& log,
                                         KvOptions options, uint64_t events) {
  options.days = 0.25;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> whole,
                            OpenLog(log, options));
  options.events = events;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> sampled,
                            OpenLog(log, options));
  const Load all = LoadOf(whole.get());
  const Load some = LoadOf(sampled.get());
  const double target = static_cast<double>(events);
  EXPECT_GT(all.events, 3 * target);
  EXPECT_NEAR(some.events, target, target / 50);
  EXPECT_NEAR(some.mean_live_bytes / all.mean_live_bytes, 1, 0.12);
  FIRN_ASSERT_OK(sampled->Rewind());
  EXPECT_EQ(LoadOf(sampled.get()).events, some.events);
}

TEST(KvTrafficTest, TheTargetOfBlocksIsMetAtTheSameConcurrency) {
  KvOptions options;
  // Retained prefixes would need longer to fill their budget.
  options.retain = 0;
  ExpectTargetMetAtTheSameConcurrency(SyntheticRequests(1), options, 300'000);
}

TEST(KvTrafficTest, TheTargetOfSequencesIsMetAtTheSameConcurrency) {
  KvOptions options;
  options.layout = KvLayout::kSequences;
  options.retain_budget_bytes = uint64_t{1} << 30;
  ExpectTargetMetAtTheSameConcurrency(SyntheticRequests(1), options, 100'000);
}

TEST(KvTrafficTest, TheTargetOfSharedBlocksIsMetAtTheSameConcurrency) {
  // Every prompt begins with one of 20 openings of 4 pieces; the rest is its
  // own.
  std::vector<Request> log;
  for (uint64_t i = 0; i < 5'000; ++i) {
    Request request;
    request.time_us = static_cast<int64_t>(i) * 500'000;
    request.context_tokens = static_cast<uint32_t>(2048 + i % 3000);
    request.generated_tokens = 100;
    const uint64_t opening = HashedDraw(1, i, 2) % 20;
    for (uint64_t piece = 0; piece * 512 < request.context_tokens; ++piece) {
      request.prefix_pieces.push_back(piece < 4 ? opening * 4 + piece
                                                : 100 + 10 * i + piece);
    }
    log.push_back(request);
  }
  KvOptions options;
  options.shared_piece_tokens = 512;
  options.retain_budget_bytes = uint64_t{1} << 30;
  ExpectTargetMetAtTheSameConcurrency(log, options, 500'000);
}

TEST(KvTrafficTest, ATargetBeyondWhatThereIsChangesNothing) {
  const std::vector<Request> log = {{0, 100, 100}, {50'000'000, 10, 20}};
  KvOptions options;
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

TEST(KvTrafficTest, ASampledTraceEndsWithItsDays) {
  KvOptions options;
  options.days = 0.25;
  options.events = 20'000;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            OpenLog(SyntheticRequests(1), options));
  const std::vector<TraceEvent> events = Gather(trace.get());
  EXPECT_NEAR(static_cast<double>(events.size()), 20'000, 1'000);
  EXPECT_LT(events.back().time_us, kQuarterDayUs);
}

TEST(KvTrafficTest, ASmallTargetIsMetAsWellAsFewRequestsCan) {
  // A request in 200 has 1000 times the events of the others, so that what a
  // share brings leaps.
  std::vector<Request> log;
  for (uint32_t i = 0; i < 20'000; ++i) {
    const uint32_t tokens = i % 200 == 0 ? 160'000 : 160;
    log.push_back({int64_t{i} * 1'000'000, tokens, 0});
  }
  KvOptions options;
  options.days = 0.2;
  options.retain = 0;
  for (const uint64_t target : {15'000u, 25'000u, 100'000u}) {
    options.events = target;
    for (options.seed = 1; options.seed <= 20; ++options.seed) {
      FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                                OpenLog(log, options));
      // Less than one long request off, and 1 %.
      EXPECT_NEAR(static_cast<double>(Gather(trace.get()).size()),
                  static_cast<double>(target),
                  14'000 + 0.01 * static_cast<double>(target))
          << "seed " << options.seed;
    }
  }
}

TEST(KvTrafficTest, WhereARequestHasEventsOneIsServed) {
  KvOptions options;
  options.days = 1e-6;
  options.retain = 0;
  options.events = 1;
  for (options.seed = 1; options.seed <= 20; ++options.seed) {
    FIRN_ASSERT_OK_AND_ASSIGN(
        std::unique_ptr<TraceSource> trace,
        OpenLog(std::vector<Request>(1'000, {0, 160, 0}), options));
    // 20 events each.
    const size_t events = Gather(trace.get()).size();
    EXPECT_GT(events, 0u) << "seed " << options.seed;
    EXPECT_LT(events, 400u) << "seed " << options.seed;
  }
}

TEST(KvTrafficTest, ATargetBelowOneRequestEndsInAllOfIt) {
  KvOptions options;
  options.days = 1e-6;
  options.retain = 0;
  options.events = 10;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            OpenLog({{0, 16'000, 0}}, options));
  EXPECT_EQ(Gather(trace.get()).size(), 2'000u);
}

TEST(KvTrafficTest, RequestsWithoutTokensHaveNoEvents) {
  KvOptions options;
  options.events = 10;
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            OpenLog({{0, 0, 0}}, options));
  EXPECT_TRUE(Gather(trace.get()).empty());
}

// A request of 16 tokens each microsecond of ten million, of which a share is
// given.
class Steady : public RequestSource {
 public:
  explicit Steady(double share) : gap_us_(1 / share) {}
  absl::StatusOr<bool> Next(Request* request) override {
    request->time_us = std::llround(gap_us_ * static_cast<double>(next_++));
    request->context_tokens = 16;
    return request->time_us < 10'000'000;
  }
  absl::Status Rewind() override {
    next_ = 0;
    return absl::OkStatus();
  }

 private:
  const double gap_us_;
  int64_t next_ = 0;
};

TEST(KvTrafficTest, ASourceOfSharesIsNotAskedForMoreThanTheTargetNeeds) {
  KvOptions options;
  options.retain = 0;
  options.events = 2'000;
  std::vector<double> shares;
  const auto requests_at = [&shares](double share) {
    shares.push_back(share);
    return std::make_shared<Steady>(share);
  };
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            OpenKvTrafficAtShare("kv", requests_at, options));
  EXPECT_NEAR(static_cast<double>(Gather(trace.get()).size()), 2'000, 40);
  // Enough to tell how many tokens a request has: 2000 requests or more.
  EXPECT_LT(*std::max_element(shares.begin(), shares.end()), 2'000 * 32 / 1e7);
  EXPECT_NEAR(shares.back(), 1e-4, 2e-6);
}

TEST(KvTrafficTest, WithoutTargetASourceOfSharesGivesAll) {
  KvOptions options;
  std::vector<double> shares;
  const auto requests_at = [&shares](double share) {
    shares.push_back(share);
    return std::make_shared<Steady>(share * 1e-4);
  };
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            OpenKvTrafficAtShare("kv", requests_at, options));
  EXPECT_GT(Gather(trace.get()).size(), 1'000u);
  EXPECT_EQ(shares, std::vector<double>{1});
}

TEST(KvTrafficTest, ReturnsTheErrorOfASourceOfShares) {
  KvOptions options;
  const auto requests_at =
      [](double) -> absl::StatusOr<std::shared_ptr<RequestSource>> {
    return absl::InvalidArgumentError("line 7");
  };
  for (const uint64_t events : {uint64_t{0}, uint64_t{10}}) {
    options.events = events;
    EXPECT_THAT(OpenKvTrafficAtShare("kv", requests_at, options),
                StatusIs(absl::StatusCode::kInvalidArgument, "line 7"));
  }
}

}  // namespace
}  // namespace firn::bench

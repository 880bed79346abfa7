// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/replay_engine.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/policies/ideal_policy.h"
#include "bench/policies/policy_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/replay/event_list.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Uses twice what is live, keeps a log, and fails when told to.
class ScriptedPolicy : public Policy {
 public:
  absl::string_view name() const override { return "scripted"; }

  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override {
    log_.push_back(absl::StrCat("allocate ", bytes, " on ", stream));
    if (!next_allocation_.ok()) {
      return std::exchange(next_allocation_, absl::OkStatus());
    }
    live_bytes_ += bytes;
    blocks_.push_back(bytes);
    return blocks_.size() - 1;
  }
  absl::Status Free(uint64_t address, uint32_t stream) override {
    log_.push_back(absl::StrCat("free ", address, " on ", stream));
    live_bytes_ -= blocks_[address];
    return next_free_;
  }
  absl::Status Tick(int64_t time_us) override {
    ticks_us_.push_back(time_us);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> TickIdle(int64_t time_us) override {
    idle_ticks_us_.push_back(time_us);
    if (!next_idle_tick_.ok()) return next_idle_tick_;
    used_over_live_ = 1;
    return static_cast<int>(idle_ticks_us_.size()) < idle_ticks_wanted_;
  }
  absl::StatusOr<std::optional<FullPassOutcome>> FullPass() override {
    if (!next_full_pass_.ok()) return next_full_pass_;
    full_passes_after_.push_back(ticks_us_.size());
    if (!has_full_passes_) return std::nullopt;
    used_over_live_ = 1;
    return FullPassOutcome{9, 8};
  }
  PolicyUsage usage() const override {
    return {used_over_live_ * live_bytes_, 3 * live_bytes_, 1};
  }
  PolicyReport Report() override {
    PolicyReport report;
    report.lower_bound_bytes = live_bytes_;
    report.bytes_copied = 42;
    return report;
  }

  absl::Status next_allocation_;
  absl::Status next_free_;
  std::vector<std::string> log_;
  std::vector<int64_t> ticks_us_;
  absl::Status next_idle_tick_;
  int idle_ticks_wanted_ = 1;
  std::vector<int64_t> idle_ticks_us_;
  absl::Status next_full_pass_;
  bool has_full_passes_ = true;
  std::vector<size_t> full_passes_after_;  // so many events

 private:
  uint64_t live_bytes_ = 0;
  uint64_t used_over_live_ = 2;
  std::vector<uint64_t> blocks_;
};

absl::StatusOr<ReplayFigures> ReplayOn(Policy* policy, TraceSource* trace,
                                       const ReplayOptions& options = {}) {
  absl::StatusOr<TraceSummary> summary = SummarizeTrace(trace);
  if (!summary.ok()) return summary.status();
  return Replay(trace, *summary, policy, options);
}

TEST(ReplayEngineTest, PassesEveryEventOnInOrder) {
  TraceEvent on_stream_3 = Alloc(20, 1, 30);
  on_stream_3.stream = 3;
  EventList trace({UnknownFree(7, 512), Alloc(10, 0, 100), on_stream_3,
                   Free(30, 0, 100), UnknownFree(30, 64)});
  ScriptedPolicy policy;
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace));
  EXPECT_THAT(policy.log_, ElementsAre("allocate 100 on 0", "allocate 30 on 3",
                                       "free 0 on 0"));
  EXPECT_THAT(policy.ticks_us_, ElementsAre(0, 10, 20));
  EXPECT_EQ(figures.events, 3u);
  EXPECT_EQ(figures.allocs, 2u);
  EXPECT_EQ(figures.frees, 1u);
  EXPECT_EQ(figures.failed_allocs, 0u);
  EXPECT_EQ(figures.unknown_frees, 2u);
  EXPECT_EQ(figures.bytes_allocated, 130u);
  EXPECT_EQ(figures.usage.peak_live_bytes, 130u);
  EXPECT_EQ(figures.usage.peak_used_bytes, 260u);
  EXPECT_EQ(figures.usage.end_held_bytes, 90u);
  EXPECT_DOUBLE_EQ(figures.usage.mean_utilization, 0.5);
  EXPECT_EQ(figures.policy.bytes_copied, 42u);
}

TEST(ReplayEngineTest, WorkGoesOnWhileNoEventComes) {
  // 200 ms with twice what is live in use, of which the first 100 ms count, as
  // much from then on, and a last event at once.
  EventList trace(
      {Alloc(7, 0, 64), Free(200'007, 0, 64), Alloc(200'010, 1, 8)});
  ScriptedPolicy policy;
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace));
  EXPECT_THAT(policy.idle_ticks_us_, ElementsAre(100'000));
  EXPECT_DOUBLE_EQ(figures.usage.mean_utilization, 2.0 / 3);
}

TEST(ReplayEngineTest, IdleTimeIsOfferedAgainWhileMoreMayBeGained) {
  EventList trace({Alloc(0, 0, 64), Free(450'000, 0, 64)});
  ScriptedPolicy policy;
  policy.idle_ticks_wanted_ = 3;
  FIRN_ASSERT_OK(ReplayOn(&policy, &trace).status());
  EXPECT_THAT(policy.idle_ticks_us_, ElementsAre(100'000, 200'000, 300'000));

  EventList short_gap({Alloc(0, 0, 64), Free(250'000, 0, 64)});
  ScriptedPolicy eager;
  eager.idle_ticks_wanted_ = 100;
  FIRN_ASSERT_OK(ReplayOn(&eager, &short_gap).status());
  EXPECT_THAT(eager.idle_ticks_us_, ElementsAre(100'000, 200'000));
}

TEST(ReplayEngineTest, AnErrorWhileNoEventComesEndsTheReplay) {
  EventList trace({Alloc(0, 0, 64), Free(450'000, 0, 64)});
  ScriptedPolicy policy;
  policy.next_idle_tick_ = absl::UnavailableError("the device is lost");
  EXPECT_THAT(ReplayOn(&policy, &trace).status(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("after event 1: the device is lost")));
}

TEST(ReplayEngineTest, AnIdMayNameAnotherBlockLater) {
  EventList trace(
      {Alloc(0, 0, 10), Free(1, 0, 10), Alloc(2, 0, 20), Free(3, 0, 20)});
  ScriptedPolicy policy;
  FIRN_ASSERT_OK(ReplayOn(&policy, &trace).status());
  EXPECT_THAT(policy.log_, ElementsAre("allocate 10 on 0", "free 0 on 0",
                                       "allocate 20 on 0", "free 1 on 0"));
}

TEST(ReplayEngineTest, ABlockThatFailedIsNotFreed) {
  EventList trace(
      {Alloc(0, 0, 10), Alloc(1, 1, 20), Free(2, 0, 10), Free(3, 1, 20)});
  ScriptedPolicy policy;
  policy.next_allocation_ = absl::ResourceExhaustedError("full");
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace));
  EXPECT_THAT(policy.log_, ElementsAre("allocate 10 on 0", "allocate 20 on 0",
                                       "free 0 on 0"));
  EXPECT_EQ(figures.events, 4u);
  EXPECT_EQ(figures.allocs, 2u);
  EXPECT_EQ(figures.failed_allocs, 1u);
  EXPECT_EQ(figures.frees, 1u);
  EXPECT_EQ(figures.bytes_allocated, 20u);
  EXPECT_EQ(figures.usage.peak_live_bytes, 20u);
}

TEST(ReplayEngineTest, StopsAtTheFirstFailureWhenAskedTo) {
  EventList trace({Alloc(0, 0, 10), Alloc(1, 1, 20)});
  ScriptedPolicy policy;
  policy.next_allocation_ = absl::ResourceExhaustedError("full");
  ReplayOptions options;
  options.stop_at_failure = true;
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace, options));
  EXPECT_EQ(figures.failed_allocs, 1u);
  EXPECT_EQ(figures.events, 1u);
}

TEST(ReplayEngineTest, AnyOtherErrorOfThePolicyEndsTheReplayAndNamesTheEvent) {
  EventList trace({Alloc(0, 0, 10), Free(1500000, 0, 10)});
  ScriptedPolicy policy;
  policy.next_free_ = absl::InvalidArgumentError("no such block");
  EXPECT_THAT(ReplayOn(&policy, &trace),
              StatusIs(absl::StatusCode::kInternal,
                       ::testing::AllOf(HasSubstr("event 2"), HasSubstr("1.5"),
                                        HasSubstr("a free"),
                                        HasSubstr("no such block"))));
}

TEST(ReplayEngineTest, TheTracesErrorIsReturnedAsItIs) {
  EventList trace({Alloc(0, 0, 10)},
                  absl::FailedPreconditionError("free of an unknown pointer"));
  ScriptedPolicy policy;
  EXPECT_THAT(Replay(&trace, TraceSummary(), &policy, ReplayOptions()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "free of an unknown pointer"));
}

TEST(ReplayEngineTest, TheLowerBoundIsThatOfTheFirstPeak) {
  EventList trace({Alloc(0, 0, 100), Alloc(1, 1, 50), Free(2, 0, 100),
                   Alloc(3, 0, 100), Free(4, 1, 50)});
  ScriptedPolicy policy;
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace));
  EXPECT_EQ(figures.lower_bound_bytes_at_peak, 150u);
}

TEST(ReplayEngineTest, ProbesAreNoEvents) {
  EventList trace({Alloc(0, 0, 100), Probe(0), Free(1, 0, 100)});
  ScriptedPolicy policy;
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace));
  EXPECT_EQ(figures.events, 2u);
  EXPECT_EQ(policy.ticks_us_.size(), 2u);
  EXPECT_EQ(figures.usage.worst_probe_used_over_live, 2);
}

// So many events, with unknown frees and probes between them, which are none.
EventList TraceOf(int64_t events) {
  std::vector<TraceEvent> list;
  for (int64_t i = 0; i < events; ++i) {
    list.push_back(i % 2 == 0 ? Alloc(i, 0, 100) : Free(i, 0, 100));
    list.push_back(UnknownFree(i, 64));
    list.push_back(Probe(i));
  }
  return EventList(std::move(list));
}

TEST(ReplayEngineTest, FullPassesAreSpreadEvenlyUpToTheLastEvent) {
  EventList trace = TraceOf(10);
  ScriptedPolicy policy;
  ReplayOptions options;
  options.full_passes = 4;
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace, options));
  EXPECT_THAT(policy.full_passes_after_, ElementsAre(3, 5, 8, 10));
  EXPECT_EQ(figures.full_passes.passes, 4u);
  EXPECT_EQ(figures.full_passes.worst_used_over_bound, 9.0 / 8);
}

TEST(ReplayEngineTest, AsManyFullPassesAsEventsComeAfterEachAndMoreAreMade) {
  EventList trace = TraceOf(4);
  for (const uint64_t passes : {uint64_t{4}, uint64_t{11}}) {
    ScriptedPolicy policy;
    ReplayOptions options;
    options.full_passes = passes;
    FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                              ReplayOn(&policy, &trace, options));
    EXPECT_EQ(policy.full_passes_after_.size(), passes);
    EXPECT_EQ(policy.full_passes_after_.front(), 1u);
    EXPECT_EQ(policy.full_passes_after_.back(), 4u);
    EXPECT_EQ(figures.full_passes.passes, passes);
  }
}

TEST(ReplayEngineTest, NoFullPassIsMadeWithoutAWord) {
  EventList trace = TraceOf(10);
  ScriptedPolicy policy;
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace));
  EXPECT_TRUE(policy.full_passes_after_.empty());
  EXPECT_EQ(figures.full_passes.passes, 0u);
  EXPECT_FALSE(figures.full_passes.worst_used_over_bound.has_value());
}

TEST(ReplayEngineTest, APolicyWithoutFullPassesHasNoFigureOfThem) {
  EventList trace = TraceOf(10);
  ScriptedPolicy policy;
  policy.has_full_passes_ = false;
  ReplayOptions options;
  options.full_passes = 2;
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace, options));
  EXPECT_EQ(figures.full_passes.passes, 0u);
}

TEST(ReplayEngineTest, WhatAFullPassLeavesIsWhatIsUsedFromItsEventOn) {
  // Twice what is live from 0 to 10 us, as much after the pass at 10 us.
  EventList trace({Alloc(0, 0, 50), Alloc(10, 1, 50), Alloc(20, 2, 8)});
  ScriptedPolicy policy;
  ReplayOptions options;
  options.full_passes = 2;
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace, options));
  EXPECT_THAT(policy.full_passes_after_, ElementsAre(2, 3));
  EXPECT_DOUBLE_EQ(figures.usage.mean_utilization, 1500.0 / 2000);
}

TEST(ReplayEngineTest, AnErrorOfAFullPassEndsTheReplayAndNamesTheEvent) {
  EventList trace = TraceOf(10);
  ScriptedPolicy policy;
  policy.next_full_pass_ = absl::UnavailableError("the device is lost");
  ReplayOptions options;
  options.full_passes = 5;
  EXPECT_THAT(ReplayOn(&policy, &trace, options).status(),
              StatusIs(absl::StatusCode::kInternal,
                       ::testing::AllOf(HasSubstr("event 2"),
                                        HasSubstr("the device is lost"))));
}

TEST(ReplayEngineTest, MeasuresTimesOfCalls) {
  std::vector<TraceEvent> events;
  for (int64_t i = 0; i < 1000; ++i) {
    events.push_back(Alloc(i, 0, 100));
    events.push_back(Free(i, 0, 100));
  }
  EventList trace(std::move(events));
  IdealPolicy policy((PolicyOptions()));
  uint64_t progress = 0;
  ReplayOptions options;
  options.on_progress = [&](uint64_t events_done) { progress = events_done; };
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFigures figures,
                            ReplayOn(&policy, &trace, options));
  EXPECT_GE(figures.alloc_ns_p99, figures.alloc_ns_p50);
  EXPECT_GE(figures.free_ns_p99, figures.free_ns_p50);
  EXPECT_EQ(progress, 0u);  // too few events
}

}  // namespace
}  // namespace firn::bench

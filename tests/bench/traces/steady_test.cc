// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/steady.h"

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

// For each event of a trace the number of the allocation that it frees.
std::vector<size_t> AllocationsFreed(const std::vector<TraceEvent>& events) {
  std::vector<size_t> freed;
  std::vector<size_t> allocated_by;  // by id
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].id >= allocated_by.size()) {
      allocated_by.resize(events[i].id + 1);
    }
    if (events[i].kind == TraceEventKind::kAllocate) {
      allocated_by[events[i].id] = i;
    }
    freed.push_back(allocated_by[events[i].id]);
  }
  return freed;
}

TEST(SteadyTest, EveryStepRepeatsTheFirst) {
  const std::vector<TraceEvent> events =
      EventsOf("gen:steady,steps=5,layers=3,accumulate=2");
  constexpr size_t kState = 2 * 3;
  const size_t step = (events.size() - 2 * kState) / 5;
  ASSERT_EQ(events.size(), 2 * kState + 5 * step);
  const std::vector<size_t> freed = AllocationsFreed(events);
  for (size_t i = kState; i + step < events.size() - kState; ++i) {
    EXPECT_EQ(events[i].kind, events[i + step].kind);
    EXPECT_EQ(events[i].bytes, events[i + step].bytes);
    EXPECT_EQ(freed[i] + step, freed[i + step]);
    EXPECT_EQ(events[i + step].time_us - events[i].time_us,
              static_cast<int64_t>(step) * 20);
  }
}

TEST(SteadyTest, SequenceLengthsAndStepTimesAreKeys) {
  EXPECT_GT(TotalsOf(EventsOf("gen:steady,steps=1,seq=1024")).peak_live_bytes,
            TotalsOf(EventsOf("gen:steady,steps=1")).peak_live_bytes);
  const std::vector<TraceEvent> events =
      EventsOf("gen:steady,steps=3,step_ms=10000");
  EXPECT_GT(events.back().time_us, 29'000'000);
}

TEST(SteadyTest, HasNoKeysThatWouldMakeStepsDiffer) {
  for (const char* key : {"eval_every=1", "checkpoint_every=1"}) {
    EXPECT_THAT(OpenTrace(std::string("gen:steady,") + key),
                StatusIs(kInvalid, HasSubstr("the keys of gen:steady are")));
  }
  EXPECT_THAT(OpenTrace("gen:steady,seq=256+512"),
              StatusIs(kInvalid, HasSubstr("key seq='256+512'")));
}

}  // namespace
}  // namespace firn::bench

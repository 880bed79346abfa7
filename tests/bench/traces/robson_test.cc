// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/robson.h"

#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/generator_testing.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(RobsonTest, SizesDoubleWhileEverySecondBlockDies) {
  const std::vector<TraceEvent> events =
      EventsOf("gen:robson,live=64B,min=8B,max=32B");
  const TraceEvent probe = {TraceEventKind::kProbe, 0, 0, 0, 0, 0};
  std::vector<TraceEvent> timeless = events;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].time_us, static_cast<int64_t>(i) * 10);
    timeless[i].time_us = 0;
  }
  EXPECT_THAT(timeless,
              ElementsAre(
                  // Eight blocks of 8: 1, 3, 5 and 7 die.
                  Allocated(0, 0, 8), Allocated(0, 1, 8), Allocated(0, 2, 8),
                  Allocated(0, 3, 8), Allocated(0, 4, 8), Allocated(0, 5, 8),
                  Allocated(0, 6, 8), Allocated(0, 7, 8), Freed(0, 1, 8),
                  Freed(0, 3, 8), Freed(0, 5, 8), Freed(0, 7, 8), probe,
                  // 32 bytes live, so two of 16, numbered anew. Live in order:
                  // 0, 2, 4, 6, 7, 5, of which 2, 6 and 5 die.
                  Allocated(0, 7, 16), Allocated(0, 5, 16), Freed(0, 2, 8),
                  Freed(0, 6, 8), Freed(0, 5, 16), probe,
                  // 32 live again, one of 32. Live in order: 0, 4, 7, 5.
                  Allocated(0, 5, 32), Freed(0, 4, 8), Freed(0, 5, 32), probe,
                  Freed(0, 0, 8), Freed(0, 7, 16)));
}

TEST(RobsonTest, EveryDieOffHalvesWhatIsLiveAndEachSizeOfIt) {
  const std::vector<TraceEvent> events =
      EventsOf("gen:robson,live=64MiB,min=4KiB,max=4MiB");
  // 4 KiB to 4 MiB: eleven sizes.
  EXPECT_THAT(LiveAtProbes(events), Each(uint64_t{32} << 20));
  EXPECT_EQ(TotalsOf(events).probes, 11u);
  EXPECT_EQ(TotalsOf(events).peak_live_bytes, uint64_t{64} << 20);
  EXPECT_EQ(TotalsOf(events).end_live_bytes, 0u);
  std::map<uint64_t, uint64_t> allocated;
  for (const TraceEvent& event : events) {
    if (event.kind == TraceEventKind::kAllocate) ++allocated[event.bytes];
  }
  EXPECT_EQ(allocated[4 << 10], 16384u);
  EXPECT_EQ(allocated[8 << 10], 4096u);
  EXPECT_EQ(allocated[4 << 20], 8u);
}

TEST(RobsonTest, RefusesKeysThatMakeNoSense) {
  EXPECT_THAT(OpenTrace("gen:robson,min=64KiB,max=4KiB"),
              StatusIs(kInvalid, HasSubstr("min, max and live must be in")));
  EXPECT_THAT(OpenTrace("gen:robson,live=1MiB"),
              StatusIs(kInvalid, HasSubstr("min, max and live must be in")));
  EXPECT_THAT(OpenTrace("gen:robson,min=0"),
              StatusIs(kInvalid, HasSubstr("key min='0'")));
  EXPECT_THAT(OpenTrace("gen:robson,rounds=1"),
              StatusIs(kInvalid, HasSubstr("the keys of gen:robson are live, "
                                           "min, max, seed")));
}

}  // namespace
}  // namespace firn::bench

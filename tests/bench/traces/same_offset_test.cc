// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/same_offset.h"

#include <map>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/generator_testing.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Offsets within a granule, and numbers of the granules, of the blocks that are
// live at each probe after a die-off, where blocks are placed one after the
// other and every round starts anew.
struct Survivors {
  std::set<uint64_t> offsets;
  std::multiset<uint64_t> granules;
};
std::vector<Survivors> SurvivorsOf(const std::vector<TraceEvent>& events,
                                   uint64_t granule_bytes) {
  std::vector<Survivors> all;
  std::map<uint64_t, uint64_t> places;  // by id
  uint64_t end = 0;
  bool refills = false;
  for (const TraceEvent& event : events) {
    if (event.kind == TraceEventKind::kAllocate) {
      places[event.id] = end;
      end += event.bytes;
    } else if (event.kind == TraceEventKind::kFree) {
      places.erase(event.id);
      if (places.empty()) end = 0;
    } else {
      if (!refills) {
        all.emplace_back();
        for (const auto& [id, place] : places) {
          all.back().offsets.insert(place % granule_bytes);
          all.back().granules.insert(place / granule_bytes);
        }
      }
      refills = !refills;
    }
  }
  return all;
}

TEST(SameOffsetTest, SurvivorsShareOneOffsetThatDiffersFromRoundToRound) {
  const std::vector<Survivors> rounds = SurvivorsOf(
      EventsOf("gen:same_offset,live=7MiB,granule=2MiB,block_bytes=512KiB+1MiB,"
               "rounds=2"),
      2 << 20);
  ASSERT_EQ(rounds.size(), 4u);
  for (const Survivors& round : rounds) {
    // Three whole granules fit into 7 MiB.
    EXPECT_THAT(round.granules, ElementsAre(0u, 1u, 2u));
  }
  // Of four slots, slot 0 and 2; of two, slot 0 and 1.
  EXPECT_THAT(rounds[0].offsets, ElementsAre(0u));
  EXPECT_THAT(rounds[1].offsets, ElementsAre(1u << 20));
  EXPECT_THAT(rounds[2].offsets, ElementsAre(0u));
  EXPECT_THAT(rounds[3].offsets, ElementsAre(1u << 20));
}

TEST(SameOffsetTest, DefaultsLeaveOneBlockInEveryGranule) {
  const std::vector<Survivors> rounds =
      SurvivorsOf(EventsOf("gen:same_offset"), 2 << 20);
  ASSERT_EQ(rounds.size(), 8u);
  for (const Survivors& round : rounds) {
    EXPECT_EQ(round.offsets.size(), 1u);
    EXPECT_EQ(round.granules.size(), 1024u);
    EXPECT_EQ(
        std::set<uint64_t>(round.granules.begin(), round.granules.end()).size(),
        1024u);
  }
}

TEST(SameOffsetTest, ProbesTheDieOffAndTheRefill) {
  const std::vector<TraceEvent> events = EventsOf(
      "gen:same_offset,live=7MiB,granule=2MiB,block_bytes=512KiB,rounds=1");
  // Three survivors of 512 KiB; two granules fit beside them.
  EXPECT_THAT(LiveAtProbes(events),
              ElementsAre(1536u << 10, (1536u << 10) + (4u << 20)));
  const TraceTotals totals = TotalsOf(events);
  EXPECT_EQ(totals.allocs, 12u + 2u);
  EXPECT_EQ(totals.end_live_bytes, 0u);
}

TEST(SameOffsetTest, RefusesBlocksThatDoNotDivideTheGranule) {
  for (const char* bytes : {"96KiB", "2MiB", "4MiB"}) {
    EXPECT_THAT(
        OpenTrace(std::string("gen:same_offset,block_bytes=") + bytes),
        StatusIs(kInvalid, HasSubstr(std::string("block_bytes: ") + bytes +
                                     " must divide the granule of 2MiB")));
  }
  EXPECT_THAT(OpenTrace("gen:same_offset,live=1MiB"),
              StatusIs(kInvalid, HasSubstr("live must be at least a granule")));
  EXPECT_THAT(OpenTrace("gen:same_offset,rounds=0"),
              StatusIs(kInvalid, HasSubstr("key rounds='0'")));
}

}  // namespace
}  // namespace firn::bench

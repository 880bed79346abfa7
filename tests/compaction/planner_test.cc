// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/planner.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "firn/compaction/snapshot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/snapshot_builder.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A move as (vg, from, to).
using Move = std::tuple<uint32_t, uint32_t, uint32_t>;

std::vector<Move> MovesOf(const Plan& plan) {
  std::vector<Move> moves;
  for (const PlannedMove& move : plan.moves) {
    moves.emplace_back(move.vg, move.from, move.to);
  }
  return moves;
}

Plan PlanOf(const SnapshotBuilder& builder) {
  return MakePlan(builder.Build(), PlanLimits());
}

TEST(PlannerTest, WhereThereIsNothingToMergeThereIsNoPlan) {
  const Plan nothing = PlanOf(SnapshotBuilder(64));
  EXPECT_THAT(nothing.moves, IsEmpty());
  EXPECT_EQ(nothing.emptied_granules, 0u);
  const Plan single = PlanOf(SnapshotBuilder(64).Granule({{Extent(0, 4)}}));
  EXPECT_THAT(single.moves, IsEmpty());
  EXPECT_FALSE(single.limited);
  const Plan full = PlanOf(SnapshotBuilder(64).FullGranules(3));
  EXPECT_THAT(full.moves, IsEmpty());
}

TEST(PlannerTest, OfTwoGranulesTheSparserMoves) {
  const Plan plan = PlanOf(SnapshotBuilder(64)
                               .Granule({{Extent(0, 10)}})
                               .Granule({{Extent(10, 14)}}));
  EXPECT_THAT(MovesOf(plan), ElementsAre(Move(1, 1, 0)));
  EXPECT_EQ(plan.emptied_granules, 1u);
  EXPECT_EQ(plan.copied_quanta, 4u);
  EXPECT_EQ(plan.rejected_sources, 0u);
  EXPECT_FALSE(plan.limited);
}

TEST(PlannerTest, GranulesThatOverlapStayApart) {
  const Plan plan = PlanOf(SnapshotBuilder(64)
                               .Granule({{Extent(0, 10)}})
                               .Granule({{Extent(9, 14)}}));
  EXPECT_THAT(plan.moves, IsEmpty());
  EXPECT_EQ(plan.emptied_granules, 0u);
  EXPECT_EQ(plan.copied_quanta, 0u);
  EXPECT_EQ(plan.rejected_sources, 1u);
}

TEST(PlannerTest, InterleavedExtentsMerge) {
  const Plan plan =
      PlanOf(SnapshotBuilder(64)
                 .Granule({{Extent(0, 4), Extent(8, 12), Extent(16, 20)}})
                 .Granule({{Extent(4, 8), Extent(12, 16)}}));
  EXPECT_THAT(MovesOf(plan), ElementsAre(Move(1, 1, 0)));
}

TEST(PlannerTest, AVirtualGranuleGoesToTheFullestHostThatFits) {
  const Plan plan = PlanOf(SnapshotBuilder(64)
                               .Granule({{Extent(0, 20)}})     // 20, fits
                               .Granule({{Extent(10, 50)}})    // 40, overlaps
                               .Granule({{Extent(0, 30)}})     // 30, fits
                               .Granule({{Extent(40, 42)}}));  // the source
  EXPECT_EQ(MovesOf(plan).front(), Move(3, 3, 2));
}

TEST(PlannerTest, TheSparsestSourceIsEmptiedFirst) {
  const Plan plan = PlanOf(SnapshotBuilder(64)
                               .Granule({{Extent(0, 20)}})
                               .Granule({{Extent(20, 26)}})
                               .Granule({{Extent(30, 31)}})
                               .Granule({{Extent(40, 43)}}));
  EXPECT_THAT(MovesOf(plan),
              ElementsAre(Move(2, 2, 0), Move(3, 3, 0), Move(1, 1, 0)));
  EXPECT_EQ(plan.emptied_granules, 3u);
  EXPECT_EQ(plan.copied_quanta, 10u);
}

TEST(PlannerTest, OfOneSourceTheLargestMovesFirst) {
  // Both fit on the fuller host, but not together.
  const Plan plan = PlanOf(SnapshotBuilder(64)
                               .Granule({{Extent(20, 60)}})
                               .Granule({{Extent(30, 50)}})
                               .Granule({{Extent(0, 4)}, {Extent(5, 14)}}));
  EXPECT_THAT(MovesOf(plan), ElementsAre(Move(3, 2, 0), Move(2, 2, 0)));
}

TEST(PlannerTest, VirtualGranulesOfASourceMayPart) {
  const Plan plan = PlanOf(SnapshotBuilder(64)
                               .Granule({{Extent(0, 40)}})
                               .Granule({{Extent(20, 50)}})
                               .Granule({{Extent(10, 14)}, {Extent(50, 60)}}));
  // The smaller one overlaps the fuller host, and fits on the other.
  EXPECT_THAT(MovesOf(plan), ElementsAre(Move(3, 2, 0), Move(2, 2, 1)));
  EXPECT_EQ(plan.emptied_granules, 1u);
  EXPECT_EQ(plan.copied_quanta, 14u);
}

// A host of 40 quanta; a source whose larger part fits there and whose smaller
// part fits nowhere; and one that wants the place which that larger part had
// tried.
SnapshotBuilder HalfFittingSource(uint32_t quanta_per_granule) {
  return SnapshotBuilder(quanta_per_granule)
      .Granule({{Extent(0, 40)}})
      .Granule({{Extent(40, 46)}, {Extent(0, 1), Extent(50, 52)}})
      .Granule({{Extent(40, 51)}});
}

TEST(PlannerTest, ASourceMovesWhollyOrNotAtAllAndLeavesNoTrace) {
  // Once with a 64th of a granule to each quantum, once with all in one 64th.
  for (const uint32_t quanta_per_granule : {64u, 4096u}) {
    const Plan plan = PlanOf(HalfFittingSource(quanta_per_granule));
    EXPECT_THAT(MovesOf(plan), ElementsAre(Move(3, 2, 0)));
    EXPECT_EQ(plan.emptied_granules, 1u);
    EXPECT_EQ(plan.copied_quanta, 11u);
    EXPECT_EQ(plan.rejected_sources, 1u);
  }
}

TEST(PlannerTest, AHostIsNoSourceLater) {
  // The sparsest fits only on the middle one, which would fit on the fullest.
  const Plan plan = PlanOf(SnapshotBuilder(64)
                               .Granule({{Extent(0, 40)}})
                               .Granule({{Extent(40, 50)}})
                               .Granule({{Extent(30, 35)}}));
  EXPECT_THAT(MovesOf(plan), ElementsAre(Move(2, 2, 1)));
  EXPECT_EQ(plan.emptied_granules, 1u);
}

TEST(PlannerTest, AGranuleWithSomethingPinnedIsNoSource) {
  SnapshotBuilder builder(64);
  builder.Granule({{Extent(0, 20)}})
      .Granule({{Extent(20, 24)}, {Extent(24, 26)}})
      .Granule({{Extent(40, 43)}});
  EXPECT_EQ(PlanOf(builder).emptied_granules, 2u);
  EXPECT_EQ(PlanOf(builder).pinned_granules, 0u);
  const Plan plan = PlanOf(builder.Pin(2));
  // It takes in the others instead, though it is emptier than one of them.
  EXPECT_THAT(MovesOf(plan), ElementsAre(Move(3, 2, 1), Move(0, 0, 1)));
  EXPECT_EQ(plan.emptied_granules, 2u);
  EXPECT_EQ(plan.pinned_granules, 1u);
  EXPECT_EQ(plan.rejected_sources, 0u);
}

TEST(PlannerTest, OfGranulesWithSomethingPinnedTheFullestThatFitsIsTheHost) {
  SnapshotBuilder builder(64);
  builder
      .Granule({{Extent(0, 60)}})  // fullest of all
      .Granule({{Extent(0, 4)}})
      .Granule({{Extent(0, 8)}})
      .Granule({{Extent(61, 62)}});
  EXPECT_THAT(MovesOf(PlanOf(builder)), ElementsAre(Move(3, 3, 0)));
  EXPECT_THAT(MovesOf(PlanOf(builder.Pin(1))), ElementsAre(Move(3, 3, 1)));
  EXPECT_THAT(MovesOf(PlanOf(builder.Pin(2))), ElementsAre(Move(3, 3, 2)));
}

TEST(PlannerTest, WhereAllIsPinnedNothingMoves) {
  const Plan plan = PlanOf(SnapshotBuilder(64)
                               .Granule({{Extent(0, 4)}})
                               .Granule({{Extent(4, 8)}})
                               .Pin(0)
                               .Pin(1));
  EXPECT_THAT(plan.moves, IsEmpty());
  EXPECT_EQ(plan.pinned_granules, 2u);
  EXPECT_FALSE(plan.limited);
}

TEST(PlannerTest, ExtentsWithinOne64thOfAGranuleAreComparedExactly) {
  EXPECT_THAT(PlanOf(SnapshotBuilder(4096)
                         .Granule({{Extent(0, 40)}})
                         .Granule({{Extent(40, 64)}}))
                  .moves,
              SizeIs(1));
  EXPECT_THAT(PlanOf(SnapshotBuilder(4096)
                         .Granule({{Extent(0, 40)}})
                         .Granule({{Extent(39, 64)}}))
                  .moves,
              IsEmpty());
  EXPECT_THAT(PlanOf(SnapshotBuilder(4096)
                         .Granule({{Extent(4000, 4095)}})
                         .Granule({{Extent(4095, 4096)}}))
                  .moves,
              SizeIs(1));
  EXPECT_THAT(PlanOf(SnapshotBuilder(4096)
                         .Granule({{Extent(0, 4096 - 64)}})
                         .Granule({{Extent(4096 - 65, 4096)}}))
                  .moves,
              IsEmpty());
}

TEST(PlannerTest, GranulesOfFewQuantaArePlannedToo) {
  EXPECT_THAT(PlanOf(SnapshotBuilder(8)
                         .Granule({{Extent(0, 4)}})
                         .Granule({{Extent(4, 7)}})
                         .Granule({{Extent(7, 8)}}))
                  .moves,
              SizeIs(2));
}

// No power of two, no multiple of 64.
TEST(PlannerTest, GranulesOfAnOddNumberOfQuantaArePlannedToo) {
  EXPECT_THAT(PlanOf(SnapshotBuilder(100)
                         .Granule({{Extent(10, 64)}})
                         .Granule({{Extent(80, 90)}}))
                  .moves,
              SizeIs(1));
  EXPECT_THAT(PlanOf(SnapshotBuilder(100)
                         .Granule({{Extent(10, 99)}})
                         .Granule({{Extent(98, 100)}}))
                  .moves,
              IsEmpty());
}

// --- Limits ---

// Three sources of 1, 2 and 3 quanta, in 1, 2 and 1 virtual granules, and a
// host.
SnapshotBuilder ThreeSources() {
  return SnapshotBuilder(64)
      .Granule({{Extent(0, 40)}})
      .Granule({{Extent(40, 41)}})
      .Granule({{Extent(41, 42)}, {Extent(42, 43)}})
      .Granule({{Extent(43, 46)}});
}

TEST(PlannerLimitsTest, WithoutLimitsAllIsMerged) {
  const Plan plan = MakePlan(ThreeSources().Build(), PlanLimits());
  EXPECT_EQ(plan.emptied_granules, 3u);
  EXPECT_EQ(plan.copied_quanta, 6u);
  EXPECT_FALSE(plan.limited);
}

TEST(PlannerLimitsTest, AtMostMaxQuantaAreCopied) {
  const Snapshot snapshot = ThreeSources().Build();
  PlanLimits limits;
  for (const auto& [max_quanta, emptied] :
       std::vector<std::pair<uint64_t, uint32_t>>{
           {0, 0}, {1, 1}, {2, 1}, {3, 2}, {5, 2}, {6, 3}}) {
    limits.max_quanta = max_quanta;
    const Plan plan = MakePlan(snapshot, limits);
    EXPECT_EQ(plan.emptied_granules, emptied) << max_quanta;
    EXPECT_LE(plan.copied_quanta, max_quanta);
    EXPECT_EQ(plan.limited, emptied < 3) << max_quanta;
  }
}

TEST(PlannerLimitsTest, AtMostMaxMovesAreMade) {
  const Snapshot snapshot = ThreeSources().Build();
  PlanLimits limits;
  for (const auto& [max_moves, emptied] :
       std::vector<std::pair<uint64_t, uint32_t>>{
           {0, 0}, {1, 1}, {2, 1}, {3, 2}, {4, 3}}) {
    limits.max_moves = max_moves;
    const Plan plan = MakePlan(snapshot, limits);
    EXPECT_EQ(plan.emptied_granules, emptied) << max_moves;
    EXPECT_LE(plan.moves.size(), max_moves);
    EXPECT_EQ(plan.limited, emptied < 3) << max_moves;
  }
}

TEST(PlannerLimitsTest, WhatIsWantedEndsThePlanWithoutLimitingIt) {
  const Snapshot snapshot = ThreeSources().Build();
  PlanLimits limits;
  for (uint64_t wanted = 0; wanted < 5; ++wanted) {
    limits.wanted_granules = wanted;
    const Plan plan = MakePlan(snapshot, limits);
    EXPECT_EQ(plan.emptied_granules, std::min<uint64_t>(wanted, 3));
    EXPECT_FALSE(plan.limited);
  }
}

TEST(PlannerLimitsTest, HostsEndUpWithAtMostMaxMappings) {
  const Snapshot snapshot = ThreeSources().Build();
  PlanLimits limits;
  limits.max_mappings_per_granule = 5;
  EXPECT_EQ(MakePlan(snapshot, limits).emptied_granules, 3u);
  // The host takes three; the last source fits on another source's place no
  // more.
  limits.max_mappings_per_granule = 4;
  EXPECT_EQ(MakePlan(snapshot, limits).emptied_granules, 2u);
  limits.max_mappings_per_granule = 1;
  EXPECT_EQ(MakePlan(snapshot, limits).emptied_granules, 0u);
}

TEST(PlannerLimitsTest, MappingsWithoutLiveBytesCountAsWell) {
  const Snapshot snapshot = SnapshotBuilder(64)
                                .Granule({{Extent(0, 40)}}, 2)
                                .Granule({{Extent(40, 41)}})
                                .Build();
  PlanLimits limits;
  limits.max_mappings_per_granule = 3;
  EXPECT_EQ(MakePlan(snapshot, limits).emptied_granules, 0u);
  limits.max_mappings_per_granule = 4;
  EXPECT_EQ(MakePlan(snapshot, limits).emptied_granules, 1u);
}

TEST(PlannerLimitsTest, TheMappingsOfASourceThatFailedCountNoMore) {
  PlanLimits limits;
  limits.max_mappings_per_granule = 2;
  const Plan plan = MakePlan(HalfFittingSource(64).Build(), limits);
  EXPECT_THAT(MovesOf(plan), ElementsAre(Move(3, 2, 0)));
}

TEST(PlannerLimitsTest, TheSearchEndsAfterFailuresInARow) {
  // Four sources overlap everything; the fullest source would fit.
  SnapshotBuilder builder(64);
  builder.Granule({{Extent(0, 40)}}).Granule({{Extent(40, 50)}});
  for (uint32_t i = 1; i <= 4; ++i) {
    builder.Granule({{Extent(39, 39 + i + 1)}});
  }
  const Snapshot snapshot = builder.Build();
  PlanLimits limits;
  limits.max_failures_in_row = 5;
  EXPECT_EQ(MakePlan(snapshot, limits).emptied_granules, 1u);
  EXPECT_EQ(MakePlan(snapshot, limits).rejected_sources, 4u);
  limits.max_failures_in_row = 4;
  EXPECT_EQ(MakePlan(snapshot, limits).emptied_granules, 0u);
  limits.max_failures_in_row = 1;
  EXPECT_EQ(MakePlan(snapshot, limits).rejected_sources, 1u);
}

TEST(PlannerLimitsTest, ASuccessStartsTheCountOfFailuresAnew) {
  // In order of fullness from below: fails, moves, fails, moves.
  const Snapshot snapshot =
      SnapshotBuilder(64)
          .Granule({{Extent(0, 40)}})
          .Granule({{Extent(0, 1), Extent(40, 41), Extent(44, 45)}})
          .Granule({{Extent(40, 44)}})
          .Granule({{Extent(0, 4), Extent(44, 47)}})
          .Granule({{Extent(44, 52)}})
          .Build();
  PlanLimits limits;
  limits.max_failures_in_row = 2;
  const Plan plan = MakePlan(snapshot, limits);
  EXPECT_EQ(plan.emptied_granules, 2u);
  EXPECT_EQ(plan.rejected_sources, 2u);
}

// --- Costs ---

PlanLimits WithCosts(double freed_granule_us) {
  PlanLimits limits;
  limits.costs.freed_granule_us = freed_granule_us;
  limits.costs.moved_vg_us = 40;
  limits.costs.moved_run_us = 20;
  limits.costs.copied_granule_us = 64;  // a microsecond a quantum
  return limits;
}

TEST(PlannerCostsTest, AGranuleIsEmptiedOnlyIfItIsWorthMoreThanThat) {
  const Snapshot snapshot = SnapshotBuilder(64)
                                .Granule({{Extent(0, 40)}})
                                .Granule({{Extent(40, 43)}})
                                .Build();
  const Plan dear = MakePlan(snapshot, WithCosts(63));
  EXPECT_THAT(dear.moves, IsEmpty());
  EXPECT_EQ(dear.unprofitable_sources, 1u);
  EXPECT_EQ(dear.rejected_sources, 0u);
  EXPECT_EQ(dear.cost_us, 0);
  EXPECT_FALSE(dear.limited);
  const Plan cheap = MakePlan(snapshot, WithCosts(63.5));
  EXPECT_EQ(cheap.emptied_granules, 1u);
  EXPECT_EQ(cheap.unprofitable_sources, 0u);
  EXPECT_EQ(cheap.cost_us, 63);
}

TEST(PlannerCostsTest, ASourceOfManyIsPassedOverAndTheNextIsTried) {
  // Of 1, 2 and 3 quanta: a move, two moves, a move.
  const Plan plan = MakePlan(ThreeSources().Build(), WithCosts(70));
  EXPECT_THAT(MovesOf(plan), ElementsAre(Move(1, 1, 0), Move(4, 3, 0)));
  EXPECT_EQ(plan.unprofitable_sources, 1u);
  EXPECT_EQ(plan.cost_us, 60 + 1 + 60 + 3);
}

TEST(PlannerCostsTest, NeighboursInAddressSpaceCostOneRun) {
  const SnapshotBuilder builder =
      SnapshotBuilder(64)
          .Granule({{Extent(0, 40)}})
          .Granule({{Extent(40, 41)}, {Extent(41, 42)}});
  EXPECT_EQ(MakePlan(builder.Build(), WithCosts(1000)).cost_us,
            2 * 40 + 20 + 2);
  Snapshot apart = builder.Build();
  apart.vgs[2].vg = VgIndex(7u);
  EXPECT_EQ(MakePlan(apart, WithCosts(1000)).cost_us, 2 * 40 + 2 * 20 + 2);
}

TEST(PlannerCostsTest, WithoutAValueWhateverFitsIsEmptied) {
  const Plan plan = MakePlan(ThreeSources().Build(), PlanLimits());
  EXPECT_EQ(plan.emptied_granules, 3u);
  EXPECT_EQ(plan.unprofitable_sources, 0u);
  EXPECT_GT(plan.cost_us, 4 * 43.5);
}

// --- Neighbours ---

PlanLimits KeepingNeighbours() {
  PlanLimits limits;
  limits.neighbour_tolerance_quanta = 20;
  return limits;
}

// Two hosts about as full; a source that makes the emptier one take something
// in; and one with two neighbours, of which the larger fits on either host and
// the other on the emptier one.
SnapshotBuilder NeighboursThatFitOneHost(uint32_t live_on_emptier) {
  return SnapshotBuilder(640)
      .Granule({{Extent(0, 390), Extent(630, 640)}})
      .Granule({{Extent(0, live_on_emptier)}})
      .Granule({{Extent(635, 637)}})
      .Granule({{Extent(600, 612)}, {Extent(625, 632)}});
}

TEST(PlannerNeighboursTest, TheyGoTogetherToAHostThatIsOneAlready) {
  Snapshot snapshot = NeighboursThatFitOneHost(395).Build();
  EXPECT_THAT(MovesOf(MakePlan(snapshot, KeepingNeighbours())),
              ElementsAre(Move(2, 2, 1), Move(3, 3, 1), Move(4, 3, 1)));
  // No neighbours in address space: each to the fullest host that fits.
  snapshot.vgs[4].vg = VgIndex(7u);
  EXPECT_THAT(MovesOf(MakePlan(snapshot, KeepingNeighbours())),
              ElementsAre(Move(2, 2, 1), Move(3, 3, 0), Move(4, 3, 1)));
}

TEST(PlannerNeighboursTest, TheyPartForAHostThatIsMuchFuller) {
  EXPECT_THAT(MovesOf(MakePlan(NeighboursThatFitOneHost(380).Build(),
                               KeepingNeighbours())),
              ElementsAre(Move(2, 2, 1), Move(3, 3, 1), Move(4, 3, 1)));
  EXPECT_THAT(MovesOf(MakePlan(NeighboursThatFitOneHost(379).Build(),
                               KeepingNeighbours())),
              ElementsAre(Move(2, 2, 1), Move(3, 3, 0), Move(4, 3, 1)));
}

TEST(PlannerNeighboursTest, TheyPartWhereTogetherTheyWouldMakeAnotherHost) {
  // Nothing has come to the emptier granule: it may yet become a source.
  const Snapshot snapshot =
      SnapshotBuilder(640)
          .Granule({{Extent(0, 390), Extent(630, 640)}})
          .Granule({{Extent(0, 395)}})
          .Granule({{Extent(600, 612)}, {Extent(625, 632)}})
          .Build();
  EXPECT_THAT(MovesOf(MakePlan(snapshot, KeepingNeighbours())),
              ElementsAre(Move(2, 2, 0), Move(3, 2, 1)));
}

TEST(PlannerNeighboursTest, WithoutATolerancePlacesAreChosenOneByOne) {
  EXPECT_THAT(MovesOf(PlanOf(NeighboursThatFitOneHost(395))),
              ElementsAre(Move(2, 2, 1), Move(3, 3, 0), Move(4, 3, 1)));
}

TEST(PlannerNeighboursTest, OneFollowsAnotherWhereNotAllFit) {
  Snapshot snapshot =
      SnapshotBuilder(640)
          .Granule({{Extent(0, 390), Extent(600, 610)}})
          .Granule({{Extent(0, 385), Extent(500, 510)}})
          .Granule({{Extent(600, 612)}, {Extent(550, 558)}, {Extent(505, 508)}})
          .Build();
  EXPECT_THAT(MovesOf(MakePlan(snapshot, KeepingNeighbours())),
              ElementsAre(Move(2, 2, 1), Move(3, 2, 1), Move(4, 2, 0)));
  snapshot.vgs[2].vg = VgIndex(9u);
  EXPECT_THAT(MovesOf(MakePlan(snapshot, KeepingNeighbours())),
              ElementsAre(Move(2, 2, 1), Move(3, 2, 0), Move(4, 2, 0)));
}

TEST(PlannerNeighboursTest, TheyKeepToTheMappingLimitTogether) {
  PlanLimits limits = KeepingNeighbours();
  limits.max_mappings_per_granule = 3;
  // One has come already: the limit leaves room for one more.
  EXPECT_THAT(MovesOf(MakePlan(NeighboursThatFitOneHost(395).Build(), limits)),
              ElementsAre(Move(2, 2, 1), Move(3, 3, 0), Move(4, 3, 1)));
}

}  // namespace
}  // namespace firn::testing

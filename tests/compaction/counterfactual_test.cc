// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/counterfactual.h"

#include "firn/compaction/planner.h"
#include "firn/compaction/snapshot.h"
#include "gtest/gtest.h"
#include "tests/support/snapshot_builder.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

TEST(CounterfactualTest, WithoutALookAllIsZero) {
  const CounterfactualCounters counters;
  EXPECT_EQ(counters.looks, 0u);
  EXPECT_EQ(counters.GranulesPerLook(), 0);
  EXPECT_EQ(counters.BytesPerGranule(), 0);
  EXPECT_EQ(counters.MovesPerGranule(), 0);
}

TEST(CounterfactualTest, DryRunsAddUp) {
  CounterfactualCounters counters;
  DryRunFigures dry_run;
  dry_run.planned_granules = 6;
  dry_run.planned_bytes = 6000;
  dry_run.planned_moves = 9;
  counters.Add(dry_run);
  dry_run.planned_granules = 2;
  dry_run.planned_bytes = 1000;
  dry_run.planned_moves = 3;
  counters.Add(dry_run);
  counters.Add(DryRunFigures());
  counters.Add(DryRunFigures());
  EXPECT_EQ(counters.looks, 4u);
  EXPECT_EQ(counters.looks_with_gain, 2u);
  EXPECT_EQ(counters.planned_granules, 8u);
  EXPECT_EQ(counters.planned_bytes, 7000u);
  EXPECT_EQ(counters.planned_moves, 12u);
  EXPECT_EQ(counters.most_planned_granules, 6u);
  EXPECT_DOUBLE_EQ(counters.GranulesPerLook(), 2);
  EXPECT_DOUBLE_EQ(counters.BytesPerGranule(), 875);
  EXPECT_DOUBLE_EQ(counters.MovesPerGranule(), 1.5);
}

TEST(CounterfactualTest, APlanHasTheFiguresOfItsDryRun) {
  const Snapshot snapshot = SnapshotBuilder(64)
                                .Granule({{Extent(0, 32)}})
                                .Granule({{Extent(32, 36)}, {Extent(40, 43)}})
                                .Build();
  const DryRunFigures figures = FiguresOf(MakePlan(snapshot, PlanLimits()));
  EXPECT_EQ(figures.planned_granules, 1u);
  EXPECT_EQ(figures.planned_bytes, 7u * kQuantumBytes);
  EXPECT_EQ(figures.planned_moves, 2u);
}

}  // namespace
}  // namespace firn::testing

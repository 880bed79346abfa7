// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/usage_figures.h"

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

constexpr uint64_t kGranule = 1000;

MemoryState State(uint64_t live, uint64_t used, uint64_t held,
                  uint64_t mapped_vgs = 0) {
  return {live, used, held, mapped_vgs};
}

TEST(UsageFiguresTest, UtilizationIsARatioOfIntegralsOverTime) {
  UsageRecorder recorder(800, kGranule, false);
  recorder.Record(10, State(100, 200, 400));
  recorder.Record(40, State(800, 1000, 1000));
  recorder.Record(50, State(0, 0, 500));
  const UsageFigures figures = recorder.Finish();
  // 30 us of 100 / 200 / 400, then 10 us of 800 / 1000 / 1000.
  EXPECT_DOUBLE_EQ(figures.mean_utilization, 11000.0 / 16000.0);
  EXPECT_DOUBLE_EQ(figures.held_utilization, 11000.0 / 22000.0);
}

TEST(UsageFiguresTest, TheLastStateHasNoDuration) {
  UsageRecorder recorder(100, kGranule, false);
  recorder.Record(0, State(100, 100, 100));
  recorder.Record(10, State(1, 1000000, 1000000));
  EXPECT_DOUBLE_EQ(recorder.Finish().mean_utilization, 1);
}

TEST(UsageFiguresTest, WithoutTimeEveryEventCountsTheSame) {
  UsageRecorder recorder(100, kGranule, true);
  recorder.Record(7, State(100, 100, 200));
  recorder.Record(7, State(50, 100, 200));
  EXPECT_DOUBLE_EQ(recorder.Finish().mean_utilization, 0.75);
  EXPECT_DOUBLE_EQ(recorder.Finish().held_utilization, 0.375);
}

TEST(UsageFiguresTest, PercentilesAreWeightedWithTime) {
  UsageRecorder recorder(1000, kGranule, false);
  recorder.Record(0, State(1000, 1000, 1000));
  recorder.Record(979, State(1000, 1500, 1500));
  recorder.Record(990, State(1000, 4000, 4000));
  recorder.Record(1000, State(1000, 1000, 1000));
  // 97.9 % of the time at 1.0, 1.1 % at 1.5, 1 % at 4.
  EXPECT_DOUBLE_EQ(recorder.Finish().used_over_live_p99, 1.5);
}

TEST(UsageFiguresTest, StatesUnderHalfAPercentOfThePeakAreIgnored) {
  UsageRecorder recorder(1000, kGranule, false);
  recorder.Record(0, State(1000, 2000, 2000));
  recorder.Record(10, State(4, 4000, 4000));
  recorder.Record(1000, State(5, 50, 60));
  recorder.Record(1001, State(0, 0, 0));
  const UsageFigures figures = recorder.Finish();
  EXPECT_DOUBLE_EQ(figures.used_over_live_p99, 10);
  EXPECT_DOUBLE_EQ(figures.trough_used_over_live, 10);
  EXPECT_DOUBLE_EQ(figures.trough_held_over_live, 12);
}

TEST(UsageFiguresTest, TheTroughComesAfterThreeQuartersOfThePeak) {
  UsageRecorder recorder(1000, kGranule, false);
  recorder.Record(0, State(10, 90, 90));  // while memory first fills
  recorder.Record(1, State(749, 800, 800));
  recorder.Record(2, State(20, 100, 100));
  recorder.Record(3, State(750, 900, 900));
  recorder.Record(4, State(200, 300, 500));
  recorder.Record(5, State(100, 250, 400));
  recorder.Record(6, State(1000, 1000, 1000));
  const UsageFigures figures = recorder.Finish();
  EXPECT_DOUBLE_EQ(figures.trough_used_over_live, 2.5);
  EXPECT_DOUBLE_EQ(figures.trough_held_over_live, 4);
}

TEST(UsageFiguresTest, AStateWithoutDurationCanBeTheTrough) {
  UsageRecorder recorder(1000, kGranule, false);
  recorder.Record(0, State(1000, 1000, 1000));
  recorder.Record(5, State(100, 300, 300));
  recorder.Record(5, State(1000, 1000, 1000));
  EXPECT_DOUBLE_EQ(recorder.Finish().trough_used_over_live, 3);
}

TEST(UsageFiguresTest, OfEquallyDeepTroughsTheWorstCounts) {
  UsageRecorder recorder(1000, kGranule, false);
  recorder.Record(0, State(1000, 1000, 1000));
  recorder.Record(1, State(100, 120, 200));
  recorder.Record(2, State(100, 150, 180));
  recorder.Record(3, State(100, 110, 110));
  EXPECT_DOUBLE_EQ(recorder.Finish().trough_used_over_live, 1.5);
  EXPECT_DOUBLE_EQ(recorder.Finish().trough_held_over_live, 2);
}

TEST(UsageFiguresTest, ProbesKeepTheWorst) {
  UsageRecorder recorder(1000, kGranule, false);
  EXPECT_FALSE(recorder.Finish().worst_probe_used_over_live.has_value());
  recorder.Record(0, State(100, 320, 320));
  recorder.Record(1, State(100, 3200, 3200));  // not probed
  recorder.Record(2, State(100, 250, 250));
  recorder.Probe();
  recorder.Record(3, State(100, 200, 200));
  recorder.Probe();
  EXPECT_EQ(recorder.Finish().worst_probe_used_over_live, 2.5);
}

TEST(UsageFiguresTest, KeepsPeaksAndTheEnd) {
  UsageRecorder recorder(1000, kGranule, false);
  recorder.Record(0, State(1000, 1100, 1200, 4));
  recorder.Record(0, State(900, 1300, 1400, 7));
  recorder.Record(0, State(10, 20, 30, 2));
  const UsageFigures figures = recorder.Finish();
  EXPECT_EQ(figures.peak_live_bytes, 1000u);
  EXPECT_EQ(figures.peak_used_bytes, 1300u);
  EXPECT_EQ(figures.peak_held_bytes, 1400u);
  EXPECT_EQ(figures.mapped_vgs_peak, 7u);
  EXPECT_EQ(figures.end_held_bytes, 30u);
}

TEST(UsageFiguresTest, VirtualGranulesAreComparedWithHeldOnes) {
  UsageRecorder recorder(1000, kGranule, false);
  recorder.Record(0, State(1, 1, 2 * kGranule, 6));
  recorder.Record(10, State(1, 1, 4 * kGranule, 4));
  recorder.Record(20, State(0, 0, 0, 0));
  EXPECT_DOUBLE_EQ(recorder.Finish().vgs_per_granule_mean, 100.0 / 60.0);
}

TEST(UsageFiguresTest, NothingRecordedIsAllZeros) {
  const UsageFigures figures = UsageRecorder(0, kGranule, true).Finish();
  EXPECT_EQ(figures.mean_utilization, 0);
  EXPECT_EQ(figures.used_over_live_p99, 0);
  EXPECT_EQ(figures.trough_used_over_live, 0);
  EXPECT_EQ(figures.vgs_per_granule_mean, 0);
}

}  // namespace
}  // namespace firn::bench

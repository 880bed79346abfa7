// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a plan costs the host: one iteration is one plan for 70,000 granules,
// which is all of a device of 141 GB.

#include <cstdint>
#include <ctime>

#include "bench/compaction/window_snapshot.h"
#include "benchmark/benchmark.h"
#include "firn/compaction/planner.h"

namespace firn::bench {
namespace {

void PlanAll(benchmark::State& state, uint32_t live_percent) {
  WindowSnapshotShape shape;
  shape.granules = 70'000;
  shape.live_percent = live_percent;
  const Snapshot snapshot = MakeWindowSnapshot(shape);
  uint64_t freed = 0;
  uint64_t moves = 0;
  const std::clock_t begin = std::clock();  // processor time
  for (auto _ : state) {
    const Plan plan = MakePlan(snapshot, PlanLimits());
    freed += plan.emptied_granules;
    moves += plan.moves.size();
  }
  const std::clock_t used = std::clock() - begin;
  if (freed == 0) {
    state.SkipWithError("nothing was planned");
    return;
  }
  const auto per_plan = static_cast<double>(state.iterations());
  state.counters["freed_granules"] = static_cast<double>(freed) / per_plan;
  state.counters["moves"] = static_cast<double>(moves) / per_plan;
  state.counters["us_per_freed_granule"] = static_cast<double>(used) * 1e6 /
                                           CLOCKS_PER_SEC /
                                           static_cast<double>(freed);
}

void BM_Plan_70000(benchmark::State& state) { PlanAll(state, 30); }
BENCHMARK(BM_Plan_70000)->Unit(benchmark::kMillisecond);

void BM_Plan_70000_HalfOccupied(benchmark::State& state) { PlanAll(state, 50); }
BENCHMARK(BM_Plan_70000_HalfOccupied)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace firn::bench

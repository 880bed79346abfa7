// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One call over many mappings against one call a mapping.

#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "batching";
constexpr uint64_t kBatches[] = {1, 4, 16, 64, 256, 1024};
constexpr int kMostRounds = 50;

struct Rounds {
  SampleSet set_access_us[2];  // one call, one call a mapping
  SampleSet unmap_us[2];
};

template <typename Function>
absl::Status TimeEach(uint64_t count, SampleSet* samples, const char* name,
                      Function function) {
  DriverResult result = DriverResult::kSuccess;
  samples->Add(TimeUs([&] {
    for (uint64_t i = 0; i < count && result == DriverResult::kSuccess; ++i) {
      result = function(i);
    }
  }));
  return ToStatus(result, name);
}

// Leaves the row mapped where a call fails.
absl::Status OneRound(const Scene& scene, GranuleRow& row, uint64_t granules,
                      bool one_by_one, Rounds* rounds) {
  for (uint64_t i = 0; i < granules; ++i) {
    FIRN_TRY_CALL("cuMemMap", scene.Map(row.At(i), row.handles()[i]));
  }
  const uint64_t calls = one_by_one ? granules : 1;
  const uint64_t each = granules / calls;
  FIRN_TRY(TimeEach(
      calls, &rounds->set_access_us[one_by_one ? 1 : 0], "cuMemSetAccess",
      [&](uint64_t i) { return scene.SetAccess(row.At(i), each); }));
  return TimeEach(calls, &rounds->unmap_us[one_by_one ? 1 : 0], "cuMemUnmap",
                  [&](uint64_t i) { return scene.Unmap(row.At(i), each); });
}

void AddRow(Report& report, const char* call, uint64_t granules,
            const SampleSet* samples) {
  const double one_us = samples[0].median();
  const double many_us = samples[1].median();
  report.AddRow(kTable,
                {TextCell(call), NumberCell(granules), NumberCell(one_us),
                 NumberCell(samples[0].p10()), NumberCell(samples[0].p90()),
                 NumberCell(many_us), NumberCell(samples[1].p10()),
                 NumberCell(samples[1].p90()), NumberCell(samples[0].count()),
                 NumberCell(one_us > 0 ? many_us / one_us : 0)});
}

}  // namespace

absl::Status MeasureBatching(MeasureContext& context) {
  const Scene& scene = context.scene;
  context.report.BeginTable(
      {kTable,
       "microseconds for all mappings of a run: one call against one a mapping",
       {"call", "granules", "one_call_us", "one_call_p10_us", "one_call_p90_us",
        "call_each_us", "call_each_p10_us", "call_each_p90_us", "count",
        "ratio"},
       {}});
  FIRN_TRY_ASSIGN(const uint64_t most, scene.Afford(1024, 0.5));
  FIRN_TRY_ASSIGN(const std::unique_ptr<GranuleRow> row,
                  GranuleRow::Reserve(scene, most));
  FIRN_TRY(row->CreateHandles(most));
  size_t left = std::size(kBatches);
  for (const uint64_t granules : kBatches) {
    const Deadline share =
        context.deadline.Share(1.0 / static_cast<double>(left--));
    if (granules > most) {
      context.report.Note(absl::StrCat("batching: no runs of ", granules,
                                       " granules: too little free memory"));
      continue;
    }
    Rounds rounds;
    for (int round = 0; round < kMostRounds; ++round) {
      if (round > 0 && share.Passed()) break;
      for (const bool one_by_one : {false, true}) {
        FIRN_TRY(OneRound(scene, *row, granules, one_by_one, &rounds));
      }
    }
    AddRow(context.report, "cuMemSetAccess", granules, rounds.set_access_us);
    AddRow(context.report, "cuMemUnmap", granules, rounds.unmap_us);
  }
  return absl::OkStatus();
}

}  // namespace firn::gpu_check

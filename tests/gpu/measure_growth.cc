// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What one mapping costs as the number of mappings that exist grows, and where
// the driver stops.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "growth";
constexpr uint64_t kMostMappings = 300'000;
constexpr uint64_t kMostDistinct = 60'000;
constexpr uint64_t kGranulesACall = 256;  // of cuMemSetAccess
constexpr int kCycles = 50;
const uint64_t kStops[] = {0,      1'000,  2'000,   5'000,   10'000,
                           20'000, 50'000, 100'000, 200'000, kMostMappings};

struct Mode {
  const char* name;
  uint64_t handles;  // 0: one a mapping
};
constexpr Mode kModes[] = {
    {"one handle", 1}, {"256 handles in turn", 256}, {"a handle each", 0}};

struct Cycle {
  SampleSet map_us;
  SampleSet set_access_us;
  SampleSet unmap_us;
};

// Maps, opens and unmaps the granule after the last one that stays mapped.
DriverResult OneCycle(const Scene& scene, DevicePtr address,
                      PhysicalHandle handle, Cycle* cycle) {
  DriverResult result = DriverResult::kSuccess;
  cycle->map_us.Add(TimeUs([&] { result = scene.Map(address, handle); }));
  if (result != DriverResult::kSuccess) return result;
  cycle->set_access_us.Add(
      TimeUs([&] { result = scene.SetAccess(address, 1); }));
  DriverResult unmapped = DriverResult::kSuccess;
  cycle->unmap_us.Add(TimeUs([&] { unmapped = scene.Unmap(address); }));
  return result != DriverResult::kSuccess ? result : unmapped;
}

// Grows `row` to `target` mappings, opening them as it goes. An error is where
// the driver stops.
absl::Status Grow(GranuleRow& row, uint64_t target, const Deadline& deadline) {
  while (row.mapped() < target && !deadline.Passed()) {
    const uint64_t first = row.mapped();
    const uint64_t count = std::min(kGranulesACall, target - first);
    FIRN_TRY(row.MapUpTo(first + count));
    FIRN_TRY(row.SetAccess(first, count));
  }
  return absl::OkStatus();
}

Row Figures(const Mode& mode, uint64_t mappings, const Cycle& cycle) {
  Row row = {TextCell(mode.name), NumberCell(mappings)};
  for (const SampleSet* const samples :
       {&cycle.map_us, &cycle.set_access_us, &cycle.unmap_us}) {
    row.push_back(NumberCell(samples->median()));
    row.push_back(NumberCell(samples->p10()));
    row.push_back(NumberCell(samples->p90()));
  }
  row.push_back(NumberCell(cycle.map_us.count()));
  row.push_back(TextCell(""));
  return row;
}

void ReportStop(MeasureContext& context, const Mode& mode, uint64_t mappings,
                const std::string& why) {
  Row row = {TextCell(mode.name), NumberCell(mappings)};
  for (int i = 0; i < 9; ++i) row.push_back(TextCell(""));
  row.push_back(NumberCell(0));
  row.push_back(TextCell(why));
  context.report.AddRow(kTable, row);
}

absl::Status MeasureMode(MeasureContext& context, const Mode& mode,
                         const Deadline& deadline) {
  const Scene& scene = context.scene;
  uint64_t most = kMostMappings;
  uint64_t handles = mode.handles;
  if (mode.handles == 0) {
    FIRN_TRY_ASSIGN(most, scene.Afford(kMostDistinct, 0.8));
    handles = most;
  } else {
    FIRN_TRY_ASSIGN(handles, scene.Afford(mode.handles, 0.8));
  }
  FIRN_TRY_ASSIGN(const std::unique_ptr<GranuleRow> row,
                  GranuleRow::Reserve(scene, most + 1));
  // Undoing takes about as long as doing.
  const Deadline growing = deadline.Share(0.5);
  for (const uint64_t stop : kStops) {
    const uint64_t target = std::min(stop, most);
    while (row->handles().size() < std::min(handles, target + 1)) {
      if (growing.Passed()) break;
      FIRN_TRY(row->CreateHandles(1));
    }
    // One a mapping: only as many as there are handles.
    const uint64_t reachable =
        mode.handles == 0 ? std::min<uint64_t>(target, row->handles().size())
                          : target;
    const absl::Status grown = Grow(*row, reachable, growing);
    if (!grown.ok()) {
      ReportStop(context, mode, row->mapped(),
                 absl::StrCat("stops here: ", grown.message()));
      return absl::OkStatus();
    }
    Cycle cycle;
    for (int i = 0; i < kCycles; ++i) {
      if (i > 0 && deadline.Passed()) break;
      const DriverResult result =
          OneCycle(scene, row->At(row->mapped()), row->handles()[0], &cycle);
      if (result == DriverResult::kSuccess) continue;
      ReportStop(
          context, mode, row->mapped(),
          std::string(
              ToStatus(result, "stops here: one more mapping").message()));
      return absl::OkStatus();
    }
    context.report.AddRow(kTable, Figures(mode, row->mapped(), cycle));
    if (target == most) break;
    if (growing.Passed()) {
      ReportStop(context, mode, row->mapped(), "out of time");
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureGrowth(MeasureContext& context) {
  context.report.BeginTable(
      {kTable,
       "map, open and unmap one granule while others are mapped, microseconds",
       {"mappings of", "mappings", "map_us", "map_p10_us", "map_p90_us",
        "set_access_us", "set_access_p10_us", "set_access_p90_us", "unmap_us",
        "unmap_p10_us", "unmap_p90_us", "count", "end"},
       {}});
  for (size_t i = context.first_step; i < std::size(kModes); ++i) {
    const Deadline share = context.deadline.Share(
        1.0 / static_cast<double>(std::size(kModes) - i));
    context.report.BeginStep(i, absl::StrCat("growth: ", kModes[i].name));
    FIRN_TRY(MeasureMode(context, kModes[i], share));
  }
  return absl::OkStatus();
}

}  // namespace firn::gpu_check

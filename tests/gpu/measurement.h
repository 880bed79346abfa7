// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A measurement: one table about one device, within a share of the time.

#ifndef FIRN_TESTS_GPU_MEASUREMENT_H_
#define FIRN_TESTS_GPU_MEASUREMENT_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tests/gpu/deadline.h"
#include "tests/gpu/report.h"
#include "tests/gpu/sample_set.h"
#include "tests/gpu/scene.h"
#include "tests/gpu/table.h"

namespace firn::gpu_check {

struct MeasureContext {
  const Scene& scene;
  std::string library;  // the driver's, as it was opened; empty: the default
  Report& report;
  Deadline deadline;
  size_t first_step = 0;   // earlier ones were done by another process
  bool continues = false;  // set: another process goes on, as was reported

  Driver& driver() const { return scene.driver(); }
};

// A name in a column, then what identifies a row, then its figures.
inline std::vector<std::string> WithFigures(std::vector<std::string> columns,
                                            absl::string_view unit) {
  const std::string u(unit);
  for (const char* const figure : {"median_", "p10_", "p90_"}) {
    columns.push_back(figure + u);
  }
  columns.push_back("count");
  return columns;
}
inline Row WithFigures(Row row, const SampleSet& samples) {
  row.push_back(NumberCell(samples.median()));
  row.push_back(NumberCell(samples.p10()));
  row.push_back(NumberCell(samples.p90()));
  row.push_back(NumberCell(samples.count()));
  return row;
}

// Each is OK if it was made; see IsNotPossible in tests/gpu/status_flow.h for
// what else it may be.
absl::Status MeasureDevice(MeasureContext& context);
absl::Status MeasureCalls(MeasureContext& context);
absl::Status MeasureWaits(MeasureContext& context);
absl::Status MeasureMisuse(MeasureContext& context);
absl::Status MeasureCapture(MeasureContext& context);
absl::Status MeasureAliases(MeasureContext& context);
absl::Status MeasureGrowth(MeasureContext& context);
absl::Status MeasureBatching(MeasureContext& context);
absl::Status MeasureMoves(MeasureContext& context);
absl::Status MeasureCopies(MeasureContext& context);
absl::Status MeasureHost(MeasureContext& context);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_MEASUREMENT_H_

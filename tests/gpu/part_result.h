// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What came of one part of the check, put together from what its processes
// reported.

#ifndef FIRN_TESTS_GPU_PART_RESULT_H_
#define FIRN_TESTS_GPU_PART_RESULT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tests/gpu/report.h"
#include "tests/gpu/table.h"

namespace firn::gpu_check {

// A check, test or measurement, and what came of it.
struct Item {
  std::string name;
  Outcome outcome = Outcome::kPassed;
  std::string why;  // unless it passed
};

struct PartResult {
  std::string name;
  double wall_s = 0;
  double limit_s = 0;
  std::vector<Item> items;
  std::vector<Table> tables;
  std::vector<std::string> notes;
  std::vector<std::string> failures;  // of the part as a whole

  size_t Count(Outcome outcome) const;
  // Failed if an item or the whole did; skipped if nothing passed.
  Outcome outcome() const;
};

// Reads the lines of one process of a part, one after another, into a result
// that may hold those of earlier processes.
class ReportReader {
 public:
  explicit ReportReader(PartResult* result) : result_(result) {}

  // What is no line of a report is a failure of the part.
  void ReadLine(const std::string& line);

  // --- What the process said of itself ---
  bool done() const { return done_; }
  std::optional<size_t> go_on_from() const { return go_on_from_; }
  // The step that has begun and not ended.
  std::optional<size_t> open_step() const { return open_step_; }
  const std::string& open_step_name() const { return open_step_name_; }
  const std::optional<DeviceFacts>& device() const { return device_; }
  // The process will say no more, and the open step is lost because of `why`:
  // a finding where the process foresaw it, a failed item elsewhere.
  void LoseOpenStep(const std::string& why);

 private:
  Table* FindTable(const std::string& name);
  void AddRow(const std::string& table_name, Row row);

  PartResult* const result_;
  bool done_ = false;
  std::optional<size_t> go_on_from_;
  std::optional<size_t> open_step_;
  std::string open_step_name_;
  std::string lost_table_;
  Row lost_row_;
  std::optional<DeviceFacts> device_;
};

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_PART_RESULT_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a part of the check, a process of its own, tells the process that
// started it: as it goes, so that nothing is lost when it is stopped or dies.

#ifndef FIRN_TESTS_GPU_REPORT_H_
#define FIRN_TESTS_GPU_REPORT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/gpu/table.h"

namespace firn::gpu_check {

enum class Outcome { kPassed, kFailed, kSkipped };
// "passed", "failed", "skipped".
absl::string_view OutcomeName(Outcome outcome);

// What is known of the device.
struct DeviceFacts {
  std::string name;
  int ordinal = 0;
  int driver_version = 0;  // 1000 * major + 10 * minor
  bool is_gpu = false;
  double memory_bytes = 0;
  double granule_bytes = 0;
};

// Not for several threads. Writes one JSON object a line.
class Report {
 public:
  // `fd` is not owned.
  explicit Report(int fd) : fd_(fd) {}

  // Said before each step, so that it is known which one did not come back.
  void BeginStep(size_t index, absl::string_view name);
  // A check, test or measurement has ended.
  void End(absl::string_view name, Outcome outcome, absl::string_view why = "");
  // `table` without rows, before its rows.
  void BeginTable(const Table& table);
  void AddRow(absl::string_view table, const Row& row);
  // The row to add should the step that has begun never come back.
  void RowIfLost(absl::string_view table, const Row& row);
  void Note(absl::string_view text);
  void Device(const DeviceFacts& facts);
  // This process ends here; another one should go on from a step on.
  void GoOnFrom(size_t index);
  // All is said.
  void Done();

 private:
  void Write(const std::string& line);

  const int fd_;
};

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_REPORT_H_

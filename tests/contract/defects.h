// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which check notices which defect of the CPU driver.

#ifndef FIRN_TESTS_CONTRACT_DEFECTS_H_
#define FIRN_TESTS_CONTRACT_DEFECTS_H_

#include <ostream>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/cpu_defect.h"
#include "tests/contract/suite_devices.h"

namespace firn::contract {

struct DefectCase {
  CpuDefect defect;
  absl::string_view defect_name;  // "SubRangeUnmapAllowed"
  absl::string_view check_name;
  Way way;
};
// For names of tests.
inline void PrintTo(const DefectCase& each, std::ostream* stream) {
  *stream << each.defect_name;
}

// One for each defect but kNone, in their order.
const std::vector<DefectCase>& DefectCases();

// By its name in DefectCases, or "None".
absl::StatusOr<CpuDefect> ParseDefect(absl::string_view name);

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_DEFECTS_H_

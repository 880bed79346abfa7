// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract suite, for programs that have it in them: as a whole, and as
// the program that it is by itself.

#ifndef FIRN_TESTS_CONTRACT_SUITE_H_
#define FIRN_TESTS_CONTRACT_SUITE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "firn/vmm/cpu/cpu_defect.h"
#include "tests/contract/check.h"
#include "tests/contract/runner.h"
#include "tests/contract/suite_devices.h"

namespace firn::contract {

struct SuiteRun {
  Way way = Way::kCpuLazy;
  CpuDefect defect = CpuDefect::kNone;
  std::string defect_name = "None";  // of `defect`
  // The first check that is run, in the order of AllChecks().
  size_t first = 0;
  // Told of each check, unless empty.
  std::function<void(size_t index, const Check& check)> begins;
  std::function<void(const Check& check, Outcome outcome)> ends;
};

// Runs checks, those that would spoil this process in processes of their own:
// such a process is this program with the arguments of SuiteMain, --way=NAME
// first. Unavailable says why there is no such driver here.
absl::Status RunSuite(const SuiteRun& run);

// What the suite's own program does with its arguments, without its name.
// Returns its exit status.
int SuiteMain(const std::vector<std::string>& words);

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_SUITE_H_

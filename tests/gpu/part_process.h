// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One part of the check, in this process.

#ifndef FIRN_TESTS_GPU_PART_PROCESS_H_
#define FIRN_TESTS_GPU_PART_PROCESS_H_

#include "tests/gpu/options.h"
#include "tests/gpu/report.h"

namespace firn::gpu_check {

// Set in the environment of the part with the tests: a test that starts this
// program once more means the test program.
inline constexpr char kInTestsVariable[] = "FIRN_GPU_CHECK_IN_TESTS";

// Runs the part that the options name and returns this process's exit status.
// What came of it is in its report.
int RunPartProcess(const Options& options, int argc, char** argv);

// The GoogleTest tests; null: without a report.
int RunTests(int argc, char** argv, Report* report);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_PART_PROCESS_H_

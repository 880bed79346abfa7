// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts the parts one after another, and goes on after whatever a part does.

#ifndef FIRN_TESTS_GPU_CONDUCTOR_H_
#define FIRN_TESTS_GPU_CONDUCTOR_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/gpu/options.h"
#include "tests/gpu/part_result.h"
#include "tests/gpu/parts.h"

namespace firn::gpu_check {

// Runs one part in as many processes as it takes, for no longer than `limit`.
// `facts` is filled by kDevicePart. Lines that show a failure are printed.
PartResult ConductPart(const Part& part, const Options& options,
                       absl::Duration limit, DeviceFacts* facts);

// Runs all parts that the options ask for; prints what came of each as it
// goes, writes the JSON file, and returns the program's exit status.
int Conduct(const Options& options);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_CONDUCTOR_H_

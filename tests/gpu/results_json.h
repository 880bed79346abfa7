// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// All results as one JSON object: docs/gpu_check.md describes it.

#ifndef FIRN_TESTS_GPU_RESULTS_JSON_H_
#define FIRN_TESTS_GPU_RESULTS_JSON_H_

#include <string>
#include <vector>

#include "tests/gpu/part_result.h"

namespace firn::gpu_check {

struct Results {
  DeviceFacts device;
  std::string library;
  double budget_s = 0;
  double wall_s = 0;
  bool passed = false;
  std::vector<PartResult> parts;
};

std::string ToJsonText(const Results& results);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_RESULTS_JSON_H_

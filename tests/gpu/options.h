// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The arguments of firn_gpu_check.

#ifndef FIRN_TESTS_GPU_OPTIONS_H_
#define FIRN_TESTS_GPU_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace firn::gpu_check {

// How the program ends.
inline constexpr int kExitPassed = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoGpu = 77;  // as test drivers have it

struct Options {
  bool help = false;
  std::string only;     // a group or a part; empty: all
  std::string json;     // where the results go; empty: nowhere
  std::string library;  // of the driver; empty: libcuda.so.1
  int device = 0;
  double budget_s = 200;
  std::vector<std::string> gtest_flags;

  // --- For the processes that the program starts of itself ---
  std::string part;
  int report_fd = -1;
  size_t first_step = 0;
  double limit_s = 0;
};

// InvalidArgument names the argument that is wrong. `words` are without the
// program's name.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& words);

std::string UsageText();

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_OPTIONS_H_

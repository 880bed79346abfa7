// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The program that tells where a GPU differs from what firn relies on: the
// contract suite, the tests of vmm and measurements in one file that can be
// copied to a machine with a GPU.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/contract/suite.h"
#include "tests/gpu/conductor.h"
#include "tests/gpu/options.h"
#include "tests/gpu/part_process.h"

namespace firn::gpu_check {
namespace {

int Main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  // A check of the contract in a process of its own, and its peers.
  if (!words.empty() && absl::StartsWith(words[0], "--way=")) {
    return contract::SuiteMain(words);
  }
  const absl::StatusOr<Options> options = ParseOptions(words);
  if (options.ok() && !options->part.empty()) {
    return RunPartProcess(*options, argc, argv);
  }
  // A test that started the test program, as it thinks.
  if (std::getenv(kInTestsVariable) != nullptr) {
    return RunTests(argc, argv, /*report=*/nullptr);
  }
  if (!options.ok()) {
    std::fprintf(stderr, "firn_gpu_check: %s\n",
                 std::string(options.status().message()).c_str());
    return kExitUsage;
  }
  if (options->help) {
    std::printf("%s", UsageText().c_str());
    return kExitPassed;
  }
  return Conduct(*options);
}

}  // namespace
}  // namespace firn::gpu_check

int main(int argc, char** argv) { return firn::gpu_check::Main(argc, argv); }

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The example program of docs/cpu_driver.md.

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::testing {
namespace {

#ifdef FIRN_REMAP_EXAMPLE

using ::testing::MatchesRegex;

// What it prints, and "exit <status>".
std::string RunExample(const std::string& spec) {
  const std::string command = absl::StrCat("FIRN_CPU_DRIVER='", spec, "' ",
                                           FIRN_REMAP_EXAMPLE, " 2>&1");
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[512];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  absl::StrAppend(&output, "exit ", pclose(pipe));
  return output;
}

constexpr char kExpected[] =
    "fill: by a host kernel\n"
    "alias: shows what was written through the first address\n"
    "remap: same address, same contents, other memory\n"
    "misuse: CUDA_ERROR_INVALID_VALUE\n"
    "report: .*cuMemUnmap.address=0x[0-9a-f]*, bytes=2097152.*\n"
    "share: the imported memory is the exported memory\n"
    "done\n"
    "exit 0";

TEST(CpuLibcudaExampleTest, ItRunsInBothExtremes) {
  EXPECT_THAT(RunExample("device_bytes=64MiB"), MatchesRegex(kExpected));
  EXPECT_THAT(RunExample("device_bytes=64MiB,sync=draining"),
              MatchesRegex(kExpected));
}

TEST(CpuLibcudaExampleTest, ItNoticesAnInjectedFailure) {
  EXPECT_THAT(RunExample("device_bytes=64MiB,fail=cuMemCreate:2:2"),
              MatchesRegex("cuMemCreate.*: CUDA_ERROR_OUT_OF_MEMORY\n"
                           "exit 256"));
}

#else

TEST(CpuLibcudaExampleTest, ItNeedsTheToolkit) {
  GTEST_SKIP() << "the example program is built where cuda.h is installed";
}

#endif  // FIRN_REMAP_EXAMPLE

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels assemble, where the toolkit's assembler is installed.

#include "tests/gpu/ptx_text.h"

#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_path.h"

namespace firn::gpu_check {
namespace {

using ::testing::HasSubstr;

class PtxTextTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PtxTextTest, AssemblesForTheArchitecture) {
  if (absl::string_view(FIRN_PTXAS).empty()) {
    GTEST_SKIP() << "there is no ptxas here";
  }
  const std::string known =
      testing::RunProgram(absl::StrCat(FIRN_PTXAS, " --help")).output;
  if (known.find(absl::StrCat("'", GetParam(), "'")) == std::string::npos) {
    GTEST_SKIP() << "this ptxas does not know " << GetParam();
  }
  const std::string path =
      testing::TemporaryPath(absl::StrCat("kernels_", GetParam(), ".ptx"));
  std::ofstream(path) << kPtxText;
  const testing::Ended ended = testing::RunProgram(
      absl::StrCat(FIRN_PTXAS, " --warn-on-spills -arch=", GetParam(),
                   " -o /dev/null ", path));
  std::remove(path.c_str());
  EXPECT_EQ(ended.exit_status, 0) << ended.output;
  EXPECT_EQ(ended.output, "");
}

INSTANTIATE_TEST_SUITE_P(Architectures, PtxTextTest,
                         ::testing::Values("sm_70", "sm_75", "sm_80", "sm_86",
                                           "sm_89", "sm_90", "sm_100",
                                           "sm_120"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(PtxTextTest, TheKernelReadsSlotsOfTheSizeThatTheHostCountsIn) {
  EXPECT_THAT(std::string(kPtxText),
              HasSubstr(absl::StrCat(", ", kReadSlotBytes, ";")));
}

}  // namespace
}  // namespace firn::gpu_check

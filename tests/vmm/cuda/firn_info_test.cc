// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Finished {
  int exit_status = -1;
  std::string output;
};

// Runs firn_info with a shell's arguments and redirections.
Finished RunFirnInfo(absl::string_view arguments) {
  Finished finished;
  const std::string command = absl::StrCat(FIRN_INFO_BINARY, " ", arguments);
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return finished;
  char buffer[4096];
  size_t count = 0;
  while ((count = fread(buffer, 1, sizeof(buffer), pipe)) > 0) {
    finished.output.append(buffer, count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) finished.exit_status = WEXITSTATUS(status);
  return finished;
}

TEST(FirnInfoTest, HelpGoesToStandardOutput) {
  const Finished finished = RunFirnInfo("--help 2>/dev/null");
  EXPECT_EQ(finished.exit_status, 0);
  EXPECT_THAT(finished.output, StartsWith("usage: firn_info"));
}

TEST(FirnInfoTest, AnUnknownFlagIsNamedInOneLineOnStandardError) {
  const Finished finished = RunFirnInfo("--bogus 2>&1 >/dev/null");
  EXPECT_EQ(finished.exit_status, 2);
  EXPECT_EQ(finished.output,
            "firn_info: unknown flag '--bogus' (see --help)\n");
  EXPECT_THAT(RunFirnInfo("--bogus 2>/dev/null").output, IsEmpty());
}

TEST(FirnInfoTest, BothDriversAreReported) {
  const Finished finished = RunFirnInfo("");
  EXPECT_EQ(finished.exit_status, 0);
  EXPECT_THAT(finished.output,
              AllOf(StartsWith("CUDA driver\n"), HasSubstr("\nCPU driver\n"),
                    ContainsRegex("minimum granularity +2 MiB"),
                    ContainsRegex("memory +[0-9.]+ [MGT]iB free of ")));
}

}  // namespace
}  // namespace firn::testing

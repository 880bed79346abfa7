// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract suite's program itself: its list of checks and its arguments.

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contract/program_output.h"

namespace firn::contract {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kUsageError = 2;

TEST(ContractProgramTest, ListsEachOfAtLeast150ChecksOnceWithItsSource) {
  const testing::Ended ended = RunContractTests("--list");
  ASSERT_EQ(ended.exit_status, 0);
  std::vector<std::string> lines =
      absl::StrSplit(ended.output, '\n', absl::SkipEmpty());
  ASSERT_GT(lines.size(), 150u);
  lines.pop_back();  // the count
  std::set<std::string> names;
  for (const std::string& line : lines) {
    EXPECT_THAT(line, ContainsRegex("^[a-z_]+\\.[a-z0-9_]+ "
                                    "\\[(documented|observed|inferred|strict)"
                                    ": .+\\]$"));
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    EXPECT_TRUE(names.insert(words[0]).second) << line;
  }
}

TEST(ContractProgramTest, RefusesWhatItDoesNotKnow) {
  for (const char* const arguments :
       {"", "--way=fpga", "--way=cpu_lazy --check=no.such_check",
        "--way=cpu_lazy --defect=NoSuchDefect", "--nonsense"}) {
    EXPECT_EQ(RunContractTests(arguments).exit_status, kUsageError)
        << arguments;
  }
}

TEST(ContractProgramTest, SaysWhyACheckIsSkipped) {
  const testing::Ended ended =
      RunContractTests("--way=cpu_lazy --check=sync.draining_unmap_waits");
  EXPECT_EQ(ended.exit_status, 77);
  EXPECT_THAT(ended.output, HasSubstr("skipped sync.draining_unmap_waits: "));
}

}  // namespace
}  // namespace firn::contract

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/options.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/gpu/parts.h"

namespace firn::gpu_check {
namespace {

constexpr double kLeastBudgetS = 1;
constexpr double kMostBudgetS = 86'400;

absl::Status BadArgument(absl::string_view word, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("'", word, "': ", why));
}

// Fills what `word` says, or says what is wrong with it.
absl::Status ParseWord(absl::string_view word, Options* options) {
  absl::string_view value = word;
  if (word == "--help" || word == "-h") {
    options->help = true;
  } else if (absl::ConsumePrefix(&value, "--only=")) {
    if (!IsPartOrGroup(value)) {
      return BadArgument(word, absl::StrCat("known are ", PartNames()));
    }
    options->only = std::string(value);
  } else if (absl::ConsumePrefix(&value, "--json=")) {
    if (value.empty()) return BadArgument(word, "a file is missing");
    options->json = std::string(value);
  } else if (absl::ConsumePrefix(&value, "--library=")) {
    if (value.empty()) return BadArgument(word, "a file is missing");
    options->library = std::string(value);
  } else if (absl::ConsumePrefix(&value, "--device=")) {
    if (!absl::SimpleAtoi(value, &options->device) || options->device < 0) {
      return BadArgument(word, "a device is a number from 0 on");
    }
  } else if (absl::ConsumePrefix(&value, "--budget_s=")) {
    if (!absl::SimpleAtod(value, &options->budget_s) ||
        !(options->budget_s >= kLeastBudgetS) ||
        !(options->budget_s <= kMostBudgetS)) {
      return BadArgument(word, absl::StrCat("seconds, from ", kLeastBudgetS,
                                            " to ", kMostBudgetS));
    }
  } else if (absl::StartsWith(word, "--gtest_")) {
    options->gtest_flags.emplace_back(word);
  } else if (absl::ConsumePrefix(&value, "--part=")) {
    if (FindPart(value) == nullptr) return BadArgument(word, "no such part");
    options->part = std::string(value);
  } else if (absl::ConsumePrefix(&value, "--report_fd=")) {
    if (!absl::SimpleAtoi(value, &options->report_fd)) {
      return BadArgument(word, "no descriptor");
    }
  } else if (absl::ConsumePrefix(&value, "--from=")) {
    if (!absl::SimpleAtoi(value, &options->first_step)) {
      return BadArgument(word, "no step");
    }
  } else if (absl::ConsumePrefix(&value, "--limit_s=")) {
    if (!absl::SimpleAtod(value, &options->limit_s)) {
      return BadArgument(word, "no time");
    }
  } else {
    return BadArgument(word, "unknown argument");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& words) {
  Options options;
  for (const std::string& word : words) {
    const absl::Status status = ParseWord(word, &options);
    if (!status.ok()) return status;
  }
  if (!options.gtest_flags.empty() && !options.only.empty() &&
      options.only != kTestsGroup) {
    return BadArgument(options.gtest_flags[0],
                       absl::StrCat("is for the tests, which --only=",
                                    options.only, " leaves out"));
  }
  return options;
}

std::string UsageText() {
  return absl::StrCat(
      "usage: firn_gpu_check [OPTION...]\n"
      "Tells where a GPU and its driver differ from what firn relies on: runs "
      "the\n"
      "contract suite and the tests of vmm on it, and measures what it does.\n"
      "\n"
      "  --only=WHAT      one group or one part: ",
      PartNames(),
      "\n"
      "  --json=FILE      the results for programs as well\n"
      "  --device=N       the device, counted from 0 (default 0)\n"
      "  --budget_s=S     seconds for all of it (default 200)\n"
      "  --library=PATH   the driver's library (default libcuda.so.1)\n"
      "  --gtest_...      passed on to the tests\n"
      "\n"
      "Exit status: 0 all passed; 1 something failed, or nothing but skips; 2 "
      "usage;\n"
      "77 there is no GPU here.\n");
}

}  // namespace firn::gpu_check

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract suite as a program: runs its checks on one driver.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/contract/check.h"
#include "tests/contract/defects.h"
#include "tests/contract/exit_probe.h"
#include "tests/contract/peer_process.h"
#include "tests/contract/runner.h"
#include "tests/contract/way.h"

namespace firn::contract {
namespace {

constexpr char kUsage[] =
    "usage: contract_tests --way=cpu_lazy|cpu_draining|libcuda|gpu\n"
    "                      [--check=NAME] [--defect=NAME] | --list\n"
    "Runs the checks of the contract on a driver; with --check one of them, "
    "in\n"
    "this process. --defect: a defect of the CPU driver that the check should\n"
    "notice. --list: the checks with their sources.\n"
    "Exit status: 0 all passed; 1 one failed; 2 usage; 77 there is no such\n"
    "driver here, or the one check cannot be run on it.\n";

struct Arguments {
  bool list = false;
  std::string check;
  std::string role;  // of the second process of a check
  int fd = -1;
  bool has_way = false;
  Way way = Way::kCpuLazy;
  CpuDefect defect = CpuDefect::kNone;
  std::string defect_name = "None";
};

// False for a usage error, which is printed.
bool Parse(const std::vector<std::string>& words, Arguments* arguments) {
  for (absl::string_view word : words) {
    if (word == "--list") {
      arguments->list = true;
    } else if (absl::ConsumePrefix(&word, "--check=")) {
      arguments->check = std::string(word);
    } else if (absl::ConsumePrefix(&word, "--role=")) {
      arguments->role = std::string(word);
    } else if (absl::ConsumePrefix(&word, "--fd=")) {
      if (!absl::SimpleAtoi(word, &arguments->fd)) return false;
    } else if (absl::ConsumePrefix(&word, "--way=")) {
      const absl::StatusOr<Way> way = ParseWay(word);
      if (!way.ok()) {
        std::fprintf(stderr, "%s\n", way.status().ToString().c_str());
        return false;
      }
      arguments->has_way = true;
      arguments->way = *way;
    } else if (absl::ConsumePrefix(&word, "--defect=")) {
      const absl::StatusOr<CpuDefect> defect = ParseDefect(word);
      if (!defect.ok()) {
        std::fprintf(stderr, "%s\n", defect.status().ToString().c_str());
        return false;
      }
      arguments->defect = *defect;
      arguments->defect_name = std::string(word);
    } else {
      std::fprintf(stderr, "unknown argument '%s'\n",
                   std::string(word).c_str());
      return false;
    }
  }
  return arguments->list || arguments->has_way;
}

void PrintList(const std::vector<Check>& checks) {
  for (const Check& check : checks) {
    std::printf("%s [%s: %s]\n", check.name.c_str(),
                std::string(SourceKindName(check.source.kind)).c_str(),
                std::string(check.source.text).c_str());
  }
  std::printf("%zu checks\n", checks.size());
}

int RunOne(const Check& check, Runner& runner) {
  const Outcome outcome = runner.RunHere(check);
  if (HasExitProbe()) runner.KeepDevices();
  switch (outcome) {
    case Outcome::kPassed:
      return kExitPassed;
    case Outcome::kSkipped:
      return kExitSkipped;
    case Outcome::kFailed:
      break;
  }
  return kExitFailed;
}

int RunAll(const std::vector<Check>& checks, Way way, Runner& runner) {
  int counts[3] = {0, 0, 0};
  for (const Check& check : checks) {
    const Outcome outcome = check.Has(kOwnProcess) ? runner.RunInChild(check)
                                                   : runner.RunHere(check);
    ++counts[static_cast<int>(outcome)];
  }
  std::printf("contract.%s: %zu checks, %d passed, %d failed, %d skipped\n",
              std::string(WayName(way)).c_str(), checks.size(),
              counts[static_cast<int>(Outcome::kPassed)],
              counts[static_cast<int>(Outcome::kFailed)],
              counts[static_cast<int>(Outcome::kSkipped)]);
  return counts[static_cast<int>(Outcome::kFailed)] == 0 ? kExitPassed
                                                         : kExitFailed;
}

int Main(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!Parse(words, &arguments)) {
    std::fprintf(stderr, "%s", kUsage);
    return kExitUsage;
  }
  InstallExitProbe();
  const std::vector<Check> checks = AllChecks();
  if (arguments.list) {
    PrintList(checks);
    return kExitPassed;
  }
  if (!arguments.role.empty()) {
    return PlayRole(arguments.role, arguments.way, arguments.fd);
  }
  RunnerOptions options;
  options.way = arguments.way;
  options.defect = arguments.defect;
  options.child_arguments = {absl::StrCat("--way=", WayName(arguments.way)),
                             absl::StrCat("--defect=", arguments.defect_name)};
  Runner runner(options);
  const absl::Status opened = runner.Open();
  if (!opened.ok()) {
    // Only a GPU may be missing.
    const bool skipped =
        arguments.way == Way::kGpu && absl::IsUnavailable(opened);
    std::printf(
        "contract.%s: %s: %s\n", std::string(WayName(arguments.way)).c_str(),
        skipped ? "skipped" : "FAILED", std::string(opened.message()).c_str());
    return skipped ? kExitSkipped : kExitFailed;
  }
  if (arguments.check.empty()) return RunAll(checks, arguments.way, runner);
  const Check* const check = FindCheck(checks, arguments.check);
  if (check == nullptr) {
    std::fprintf(stderr, "no check is called '%s'\n", arguments.check.c_str());
    return kExitUsage;
  }
  return RunOne(*check, runner);
}

}  // namespace
}  // namespace firn::contract

int main(int argc, char** argv) {
  return firn::contract::Main(std::vector<std::string>(argv + 1, argv + argc));
}

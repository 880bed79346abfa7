// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/contract/suite.h"

#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/contract/defects.h"
#include "tests/contract/exit_probe.h"
#include "tests/contract/peer_process.h"

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
  SuiteRun run;
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
      const absl::StatusOr<Way> way = testing::ParseWay(word);
      if (!way.ok()) {
        std::fprintf(stderr, "%s\n", way.status().ToString().c_str());
        return false;
      }
      arguments->has_way = true;
      arguments->run.way = *way;
    } else if (absl::ConsumePrefix(&word, "--defect=")) {
      const absl::StatusOr<CpuDefect> defect = ParseDefect(word);
      if (!defect.ok()) {
        std::fprintf(stderr, "%s\n", defect.status().ToString().c_str());
        return false;
      }
      arguments->run.defect = *defect;
      arguments->run.defect_name = std::string(word);
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

Runner NewRunner(const SuiteRun& run) {
  RunnerOptions options;
  options.way = run.way;
  options.defect = run.defect;
  options.child_arguments = {absl::StrCat("--way=", testing::WayName(run.way)),
                             absl::StrCat("--defect=", run.defect_name)};
  return Runner(options);
}

// Whether a runner skips the check for certain: no process is needed to find
// that out, and on a GPU each takes a while to start.
bool IsSkippedForSure(const Check& check, Way way) {
  return way == Way::kGpu && (check.source.kind == SourceKind::kStrict ||
                              (check.traits & (kKernels | kLazy | kDraining |
                                               kOwnMemoryInfo)) != 0);
}

std::string ProgramName(Way way) {
  return absl::StrCat("contract.", testing::WayName(way));
}

// Says that there is no such driver, and returns the exit status.
int EndWithoutDriver(Way way, const absl::Status& opened) {
  // Only a GPU may be missing.
  const bool skipped = way == Way::kGpu && absl::IsUnavailable(opened);
  std::printf("%s: %s: %s\n", ProgramName(way).c_str(),
              skipped ? "skipped" : "FAILED",
              std::string(opened.message()).c_str());
  return skipped ? kExitSkipped : kExitFailed;
}

int RunOne(const SuiteRun& run, absl::string_view name) {
  Runner runner = NewRunner(run);
  const absl::Status opened = runner.Open();
  if (!opened.ok()) return EndWithoutDriver(run.way, opened);
  const std::vector<Check> checks = AllChecks();
  const Check* const check = FindCheck(checks, name);
  if (check == nullptr) {
    std::fprintf(stderr, "no check is called '%s'\n",
                 std::string(name).c_str());
    return kExitUsage;
  }
  const Outcome outcome = runner.RunHere(*check);
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

int RunAll(SuiteRun run) {
  int counts[3] = {0, 0, 0};
  run.ends = [&counts](const Check&, Outcome outcome) {
    ++counts[static_cast<int>(outcome)];
  };
  const absl::Status opened = RunSuite(run);
  if (!opened.ok()) return EndWithoutDriver(run.way, opened);
  const int passed = counts[static_cast<int>(Outcome::kPassed)];
  const int failed = counts[static_cast<int>(Outcome::kFailed)];
  const int skipped = counts[static_cast<int>(Outcome::kSkipped)];
  std::printf("%s: %d checks, %d passed, %d failed, %d skipped\n",
              ProgramName(run.way).c_str(), passed + failed + skipped, passed,
              failed, skipped);
  return failed == 0 ? kExitPassed : kExitFailed;
}

}  // namespace

absl::Status RunSuite(const SuiteRun& run) {
  Runner runner = NewRunner(run);
  const absl::Status opened = runner.Open();
  if (!opened.ok()) return opened;
  const std::vector<Check> checks = AllChecks();
  for (size_t i = run.first; i < checks.size(); ++i) {
    const Check& check = checks[i];
    if (run.begins) run.begins(i, check);
    const bool in_child =
        check.Has(kOwnProcess) && !IsSkippedForSure(check, run.way);
    const Outcome outcome =
        in_child ? runner.RunInChild(check) : runner.RunHere(check);
    if (run.ends) run.ends(check, outcome);
  }
  return absl::OkStatus();
}

int SuiteMain(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!Parse(words, &arguments)) {
    std::fprintf(stderr, "%s", kUsage);
    return kExitUsage;
  }
  InstallExitProbe();
  if (arguments.list) {
    PrintList(AllChecks());
    return kExitPassed;
  }
  if (!arguments.role.empty()) {
    return PlayRole(arguments.role, arguments.run.way, arguments.fd);
  }
  if (!arguments.check.empty()) return RunOne(arguments.run, arguments.check);
  return RunAll(arguments.run);
}

}  // namespace firn::contract

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/gpu/child_run.h"
#include "tests/gpu/conductor.h"
#include "tests/gpu/deadline.h"
#include "tests/gpu/part_process.h"

namespace firn::gpu_check {
namespace {

// What a process gets beyond the time it is told: to finish a call, and to
// end.
constexpr absl::Duration kGrace = absl::Seconds(2);
constexpr int kMostProcesses = 60;

// CUDA_VISIBLE_DEVICES with the device first: tests use devices 0 and 1.
std::string VisibleDevices(int device) {
  std::vector<std::string> names;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && *visible != '\0') {
    names = absl::StrSplit(visible, ',');
  }
  const auto wanted = static_cast<size_t>(device);
  for (size_t i = names.size(); i < wanted + 1; ++i) {
    names.push_back(absl::StrCat(i));
  }
  const std::string first = names[wanted];
  names.erase(names.begin() + device);
  names.insert(names.begin(), first);
  return absl::StrJoin(names, ",");
}

std::vector<std::pair<std::string, std::string>> Environment(
    const Part& part, const Options& options) {
  std::vector<std::pair<std::string, std::string>> environment;
  if (!options.library.empty()) {
    environment.emplace_back("FIRN_TEST_LIBRARY", options.library);
    // What the CPU driver's library is to be like; a driver's ignores it.
    if (std::getenv("FIRN_CPU_DRIVER") == nullptr) {
      environment.emplace_back(
          "FIRN_CPU_DRIVER",
          "devices=2,granularity=64KiB,device_bytes=256MiB,errors=quiet");
    }
  }
  if (part.measure != nullptr) return environment;
  environment.emplace_back("FIRN_TEST_WAY", "gpu");
  if (options.device != 0) {
    environment.emplace_back("CUDA_VISIBLE_DEVICES",
                             VisibleDevices(options.device));
  }
  if (part.group == absl::string_view(kTestsGroup)) {
    environment.emplace_back(kInTestsVariable, "1");
  }
  return environment;
}

// The user's flags, and a filter without the tests that have run.
std::vector<std::string> GtestFlags(const Options& options,
                                    const PartResult& result) {
  std::vector<std::string> flags = {"--gtest_brief=1"};
  std::string filter = "*";
  for (absl::string_view flag : options.gtest_flags) {
    if (absl::ConsumePrefix(&flag, "--gtest_filter=")) {
      filter = std::string(flag);
    } else {
      flags.emplace_back(flag);
    }
  }
  for (const Item& item : result.items) {
    absl::StrAppend(&filter, absl::StrContains(filter, '-') ? ":" : "-",
                    item.name);
  }
  flags.push_back(absl::StrCat("--gtest_filter=", filter));
  return flags;
}

// Reasons that a check printed and did not report: "skipped NAME: WHY" and
// "FAILED NAME [...]: WHY".
void AddReasons(const std::vector<std::string>& output, PartResult* result) {
  for (Item& item : result->items) {
    if (item.outcome == Outcome::kPassed || !item.why.empty()) continue;
    for (const absl::string_view line : output) {
      for (const char* const word : {"skipped ", "FAILED "}) {
        absl::string_view rest = line;
        if (!absl::ConsumePrefix(&rest, absl::StrCat(word, item.name)) ||
            rest.empty() || (rest[0] != ':' && rest[0] != ' ')) {
          continue;
        }
        absl::StrAppend(&item.why, item.why.empty() ? "" : "\n",
                        rest.substr(rest[0] == ':' ? 2 : 1));
      }
    }
  }
}

class PartRunner {
 public:
  PartRunner(const Part& part, const Options& options, absl::Duration limit,
             DeviceFacts* facts)
      : part_(part), options_(options), deadline_(limit), facts_(facts) {
    result_.name = part.name;
    result_.limit_s = absl::ToDoubleSeconds(limit);
  }

  PartResult Run() {
    const double start_us = NowUs();
    size_t from = 0;
    bool more = true;
    for (int process = 0; more; ++process) {
      if (process == kMostProcesses) {
        result_.failures.push_back("too many processes died: gave up");
        break;
      }
      more = RunOne(&from);
    }
    AddReasons(output_, &result_);
    result_.wall_s = (NowUs() - start_us) / 1e6;
    return std::move(result_);
  }

 private:
  bool IsMeasurement() const { return part_.measure != nullptr; }

  // Returns whether there is more to do, from step `*from` on.
  bool RunOne(size_t* from) {
    const absl::Duration left = deadline_.Left();
    ChildRun run;
    run.arguments = {absl::StrCat("--part=", part_.name),
                     absl::StrCat("--device=", options_.device),
                     absl::StrCat("--from=", *from),
                     absl::StrCat("--limit_s=", absl::ToDoubleSeconds(left))};
    if (!options_.library.empty()) {
      run.arguments.push_back(absl::StrCat("--library=", options_.library));
    }
    if (part_.group == absl::string_view(kTestsGroup)) {
      for (std::string& flag : GtestFlags(options_, result_)) {
        run.arguments.push_back(std::move(flag));
      }
    }
    run.environment = Environment(part_, options_);
    run.limit = left + kGrace;
    run.silence_limit = absl::Seconds(part_.silence_s);
    ReportReader reader(&result_);
    const ChildEnd end = RunChild(
        run, [&reader](const std::string& line) { reader.ReadLine(line); },
        [this](const std::string& line) { Hear(line); });
    if (reader.device().has_value()) *facts_ = *reader.device();
    return GoesOn(reader, end, from);
  }

  bool GoesOn(ReportReader& reader, const ChildEnd& end, size_t* from) {
    const std::string why = DescribeEnd(end);
    if (reader.done()) {
      // All is said; but a process must be able to end.
      if (end.kind == ChildEnd::Kind::kSignalled ||
          (end.kind == ChildEnd::Kind::kExited && end.code != 0)) {
        result_.failures.push_back(absl::StrCat("at its end ", why));
      }
      return false;
    }
    if (end.kind == ChildEnd::Kind::kTimeUp) {
      StopForTime(reader);
      return false;
    }
    if (reader.go_on_from().has_value()) {
      *from = *reader.go_on_from();
      return true;
    }
    if (!reader.open_step().has_value()) {
      result_.failures.push_back(why);
      return false;
    }
    *from = *reader.open_step() + 1;
    reader.LoseOpenStep(why);
    return true;
  }

  // A measurement is as long as it is given time; of the others, what was not
  // run is not known to work.
  void StopForTime(const ReportReader& reader) {
    const std::string where =
        reader.open_step().has_value()
            ? absl::StrCat(" at ", reader.open_step_name())
            : "";
    const std::string text = absl::StrCat(
        "its time of ",
        absl::FormatDuration(absl::Seconds(static_cast<int>(result_.limit_s))),
        " was up", where);
    bool any_row = false;
    for (const Table& table : result_.tables) {
      any_row = any_row || !table.rows.empty();
    }
    if (IsMeasurement() && any_row) {
      result_.notes.push_back(absl::StrCat(part_.name, ": ", text));
      result_.items.push_back({part_.name, Outcome::kPassed, text});
    } else {
      result_.failures.push_back(text);
    }
  }

  void Hear(const std::string& line) {
    output_.push_back(line);
    if (absl::StartsWith(line, "skipped ") || line.empty() ||
        absl::StartsWith(line, "Note: Google Test filter") ||
        absl::StartsWith(line, "Running main() from") ||
        absl::StartsWith(line, "[==========]") ||
        absl::StartsWith(line, "[  PASSED  ]") ||
        absl::StartsWith(line, "[  SKIPPED ]")) {
      return;
    }
    std::printf("    %s\n", line.c_str());
  }

  const Part part_;
  const Options& options_;
  const Deadline deadline_;
  DeviceFacts* const facts_;
  PartResult result_;
  std::vector<std::string> output_;
};

}  // namespace

PartResult ConductPart(const Part& part, const Options& options,
                       absl::Duration limit, DeviceFacts* facts) {
  return PartRunner(part, options, limit, facts).Run();
}

}  // namespace firn::gpu_check

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/conductor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/gpu/deadline.h"
#include "tests/gpu/results_json.h"

namespace firn::gpu_check {
namespace {

constexpr absl::Duration kDeviceLimit = absl::Seconds(40);

std::string DeviceLine(const DeviceFacts& facts) {
  return absl::StrFormat("device %d: %s, driver of CUDA %d.%d, %.1f GiB",
                         facts.ordinal, facts.name, facts.driver_version / 1000,
                         facts.driver_version % 1000 / 10,
                         facts.memory_bytes / (1 << 30));
}

void SayWhatItIs(const DeviceFacts& facts, const std::string& library) {
  std::printf("%s\n", DeviceLine(facts).c_str());
  if (facts.is_gpu) return;
  std::printf(
      "**************************************************************\n"
      "*  THIS IS NOT A GPU: %s\n"
      "*  is firn's CPU driver. The figures are WORTHLESS: they show\n"
      "*  only that this program works.\n"
      "**************************************************************\n",
      library.c_str());
}

void Print(const PartResult& result, const DeviceFacts& facts) {
  std::printf("%s: %s: %zu passed, %zu failed, %zu skipped, %.1f of %.1f s\n",
              result.name.c_str(),
              std::string(OutcomeName(result.outcome())).c_str(),
              result.Count(Outcome::kPassed), result.Count(Outcome::kFailed),
              result.Count(Outcome::kSkipped), result.wall_s, result.limit_s);
  for (const Table& table : result.tables) {
    std::printf("\n%s: %s\n[%s%s]\n%s\n", table.name.c_str(),
                table.title.c_str(), DeviceLine(facts).c_str(),
                facts.is_gpu ? "" : "; NOT A GPU: worthless",
                ToText(table).c_str());
  }
  for (const std::string& note : result.notes) {
    std::printf("  note: %s\n", note.c_str());
  }
  for (const std::string& failure : result.failures) {
    std::printf("  FAILED: %s\n", failure.c_str());
  }
  // Of what was to be measured, why it was not; of a whole suite, only what
  // went wrong.
  for (const Item& item : result.items) {
    if (item.outcome == Outcome::kFailed) {
      std::printf("  FAILED %s: %s\n", item.name.c_str(), item.why.c_str());
    } else if (item.outcome == Outcome::kSkipped && item.name == result.name) {
      std::printf("  not possible: %s\n", item.why.c_str());
    }
  }
}

// Differences are no failures: they are what was to be found.
size_t CountDifferences(const std::vector<PartResult>& parts) {
  size_t count = 0;
  for (const PartResult& part : parts) {
    for (const Table& table : part.tables) {
      for (const Row& row : table.rows) {
        if (!row.empty() && CellText(row.back()) == "DIFFERS") ++count;
      }
    }
  }
  return count;
}

// Runs the parts one after another. Each has its share of the time that is
// left, so that what one does not need is there for the next.
std::vector<PartResult> RunParts(const std::vector<Part>& parts,
                                 const Options& options,
                                 const Deadline& deadline, DeviceFacts* facts) {
  double weight_left = 0;
  for (const Part& part : parts) weight_left += part.weight;
  std::vector<PartResult> results;
  for (const Part& part : parts) {
    const absl::Duration limit = deadline.Left() * (part.weight / weight_left);
    weight_left -= part.weight;
    results.push_back(ConductPart(part, options, limit, facts));
    Print(results.back(), *facts);
  }
  return results;
}

// Nothing but skips has shown nothing: in each group that was asked for.
std::vector<std::string> GroupsOfSkips(const std::vector<Part>& parts,
                                       const std::vector<PartResult>& results) {
  std::vector<std::string> groups;
  for (const char* const group : {kContractGroup, kTestsGroup, kMeasureGroup}) {
    bool chosen = false;
    bool shown = false;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].group != absl::string_view(group)) continue;
      chosen = true;
      shown = shown || results[i].outcome() != Outcome::kSkipped;
    }
    if (chosen && !shown) groups.push_back(group);
  }
  return groups;
}

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  return file.good();
}

// The device part, or the exit status where there is no device.
int FindDevice(const Options& options, PartResult* result, DeviceFacts* facts) {
  if (!options.library.empty() && access(options.library.c_str(), R_OK) != 0) {
    std::fprintf(stderr, "firn_gpu_check: '--library=%s': cannot be read\n",
                 options.library.c_str());
    return kExitUsage;
  }
  *result = ConductPart(*FindPart(kDevicePart), options, kDeviceLimit, facts);
  if (result->outcome() == Outcome::kPassed) return kExitPassed;
  std::string why = result->failures.empty() ? "" : result->failures[0];
  for (const Item& item : result->items) why = item.why;
  if (result->outcome() == Outcome::kFailed) {
    std::printf("FAILED: the device cannot be asked: %s\n", why.c_str());
    return kExitFailed;
  }
  if (options.device > 0 && absl::StrContains(why, "there is no CUDA device")) {
    std::fprintf(stderr, "firn_gpu_check: '--device=%d': %s\n", options.device,
                 why.c_str());
    return kExitUsage;
  }
  std::printf("skipped: there is no GPU to be checked: %s\n", why.c_str());
  return kExitNoGpu;
}

}  // namespace

int Conduct(const Options& options) {
  // As it goes, also into a file.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const double start_us = NowUs();
  const Deadline deadline(absl::Seconds(options.budget_s));
  Results results;
  results.library = options.library;
  results.budget_s = options.budget_s;
  PartResult device;
  const int found = FindDevice(options, &device, &results.device);
  if (found != kExitPassed) return found;
  SayWhatItIs(results.device, options.library);
  Print(device, results.device);

  const std::vector<Part> parts = ChooseParts(options.only);
  results.parts = RunParts(parts, options, deadline, &results.device);
  const std::vector<std::string> skipped = GroupsOfSkips(parts, results.parts);
  results.passed = skipped.empty() &&
                   std::none_of(results.parts.begin(), results.parts.end(),
                                [](const PartResult& part) {
                                  return part.outcome() == Outcome::kFailed;
                                });
  results.parts.insert(results.parts.begin(), device);
  results.wall_s = (NowUs() - start_us) / 1e6;

  for (const std::string& group : skipped) {
    std::printf("FAILED %s: nothing but skips\n", group.c_str());
  }
  std::printf("\n%s: %s in %.0f s; %zu answers differ from the CPU driver's\n",
              DeviceLine(results.device).c_str(),
              results.passed ? "passed" : "FAILED", results.wall_s,
              CountDifferences(results.parts));
  if (!results.device.is_gpu) {
    SayWhatItIs(results.device, options.library);
  }
  if (!options.json.empty() && !WriteFile(options.json, ToJsonText(results))) {
    std::printf("FAILED: cannot write '%s'\n", options.json.c_str());
    return kExitFailed;
  }
  return results.passed ? kExitPassed : kExitFailed;
}

}  // namespace firn::gpu_check

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/frame/source_rules.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace firn::testing {

namespace {

constexpr int kMaxLines = 600;

// The library's folders, each with all it may include, itself first.
struct Layer {
  absl::string_view folder;
  std::vector<absl::string_view> may_include;
};

const std::vector<Layer>& Layers() {
  static const auto* const layers = new std::vector<Layer>{
      {"vmm", {"vmm"}},
      {"compaction", {"compaction", "vmm"}},
      {"core", {"core", "compaction", "vmm"}},
  };
  return *layers;
}

const Layer* FindLayer(absl::string_view folder) {
  const auto found = absl::c_find_if(
      Layers(), [&](const Layer& layer) { return layer.folder == folder; });
  return found == Layers().end() ? nullptr : &*found;
}

// "firn/vmm/driver.h", 1 gives "vmm"; nothing beyond the last part.
absl::string_view PathPart(absl::string_view path, size_t index) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  return index < parts.size() ? parts[index] : absl::string_view();
}

struct Include {
  absl::string_view target;
  bool quoted = false;
};

std::vector<Include> FindIncludes(absl::string_view text) {
  std::vector<Include> includes;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "#")) continue;
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "include")) continue;
    line = absl::StripAsciiWhitespace(line);
    const bool quoted = absl::ConsumePrefix(&line, "\"");
    if (!quoted && !absl::ConsumePrefix(&line, "<")) continue;
    const size_t end = line.find(quoted ? '"' : '>');
    if (end != absl::string_view::npos) {
      includes.push_back({line.substr(0, end), quoted});
    }
  }
  return includes;
}

bool IsCudaHeader(absl::string_view target) {
  return target == "cuda.h" || absl::StartsWith(target, "cuda_runtime");
}

// Why a file of `folder` may not include `target`, or "".
std::string WhyRefused(absl::string_view path, const Include& include) {
  const absl::string_view target = include.target;
  const absl::string_view folder = PathPart(path, 0);
  const absl::string_view first = PathPart(target, 0);
  const Layer* const layer = FindLayer(folder);

  if (IsCudaHeader(target)) {
    const bool may =
        absl::StrContains(path, "vmm/cuda/") && absl::EndsWith(path, ".cc");
    return may ? "" : "only sources of vmm/cuda may";
  }
  if (absl::StrContains(target, "..")) return "no relative paths";
  if (FindLayer(first) != nullptr) return "spell it firn/...";
  if (first == "firn") {
    const absl::string_view second = PathPart(target, 1);
    if (FindLayer(second) == nullptr) return "there is no such folder";
    if (layer != nullptr && !absl::c_linear_search(layer->may_include, second))
      return absl::StrCat(folder, " stands below ", second);
    return "";
  }
  if (first == "tests") return folder == "tests" ? "" : "only tests may";
  if (first == "bench") {
    return layer == nullptr ? "" : "bench stands above the library";
  }
  if (!include.quoted) return "";
  if (!absl::StrContains(target, '/')) {
    return "spell our own by its path and a system's in angle brackets";
  }
  if (layer != nullptr && first != "absl")
    return "the library needs Abseil only";
  return "";
}

std::string GuardOf(absl::string_view path) {
  const std::string name =
      absl::StrReplaceAll(path, {{"/", "_"}, {".", "_"}, {"-", "_"}});
  return absl::StrCat("FIRN_", absl::AsciiStrToUpper(name), "_");
}

}  // namespace

Violations CheckIncludes(absl::string_view path, absl::string_view text) {
  Violations violations;
  for (const Include& include : FindIncludes(text)) {
    const std::string reason = WhyRefused(path, include);
    if (reason.empty()) continue;
    violations.push_back(
        absl::StrCat(path, " includes ", include.target, ": ", reason));
  }
  return violations;
}

Violations CheckHead(absl::string_view path, absl::string_view text) {
  Violations violations;
  const bool is_cpp = absl::EndsWith(path, ".h") || absl::EndsWith(path, ".cc");
  const absl::string_view mark = is_cpp ? "// " : "# ";
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  const size_t first = absl::StartsWith(text, "#!") ? 1 : 0;
  const bool licensed =
      lines.size() > first + 1 &&
      absl::StartsWith(lines[first], absl::StrCat(mark, "Copyright ")) &&
      absl::EndsWith(lines[first], " The firn Authors") &&
      lines[first + 1] ==
          absl::StrCat(mark, "SPDX-License-Identifier: Apache-2.0");
  if (!licensed) {
    violations.push_back(
        absl::StrCat(path, " does not begin with the licence lines"));
  }
  if (absl::EndsWith(path, ".h")) {
    const std::string guard = GuardOf(path);
    if (!absl::StrContains(
            text, absl::StrCat("\n#ifndef ", guard, "\n#define ", guard, "\n")))
      violations.push_back(absl::StrCat(path, " is not guarded by ", guard));
  }
  return violations;
}

Violations CheckLength(absl::string_view path, absl::string_view text) {
  const auto lines = absl::c_count(text, '\n');
  if (lines < kMaxLines) return {};
  return {absl::StrCat(path, " has ", lines, " lines, which is not under ",
                       kMaxLines)};
}

Violations CheckPlace(absl::string_view path) {
  Violations violations;
  std::vector<absl::string_view> folders = absl::StrSplit(path, '/');
  folders.pop_back();
  if (folders.empty()) return violations;
  constexpr absl::string_view kTopLevel[] = {"bench", "compaction", "core",
                                             "docs",  "tests",      "vmm"};
  if (!absl::c_linear_search(kTopLevel, folders[0])) {
    violations.push_back(
        absl::StrCat(path, " lies in an unknown top-level folder"));
  }
  constexpr absl::string_view kCatchAll[] = {
      "common", "detail", "details", "helper", "helpers", "misc",
      "util",   "utils",  "utility", "shared", "general", "stuff"};
  for (absl::string_view folder : folders) {
    if (absl::c_linear_search(kCatchAll, folder)) {
      violations.push_back(
          absl::StrCat(path, " lies in the catch-all folder ", folder));
    }
  }
  return violations;
}

}  // namespace firn::testing

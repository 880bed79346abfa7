// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/contract/check.h"

#include <algorithm>

#include "firn/vmm/driver_status.h"

namespace firn::contract {
namespace {

std::vector<Check>& Registry() {
  static auto* const checks = new std::vector<Check>;
  return *checks;
}

std::string Spell(DriverResult result) {
  return absl::StrCat(DriverResultName(result), " (",
                      static_cast<int32_t>(result), ")");
}

bool IsRefusal(DriverResult result) {
  switch (result) {
    case DriverResult::kSuccess:
    case DriverResult::kNotReady:
    case DriverResult::kNotInitialized:
    case DriverResult::kUnknown:
      return false;
    default:
      return !IsStickyResult(result);
  }
}

}  // namespace

absl::string_view SourceKindName(SourceKind kind) {
  switch (kind) {
    case SourceKind::kDocumented:
      return "documented";
    case SourceKind::kObserved:
      return "observed";
    case SourceKind::kInferred:
      return "inferred";
    case SourceKind::kStrict:
      return "strict";
  }
  return "unknown source";
}

void CheckResult::Fail(absl::string_view file, int line,
                       absl::string_view what) {
  // The last part of the path says enough.
  const size_t slash = file.rfind('/');
  if (slash != absl::string_view::npos) file.remove_prefix(slash + 1);
  failures_.push_back(absl::StrCat(file, ":", line, ": ", what));
}

bool CheckResult::ExpectSuccess(absl::string_view file, int line,
                                absl::string_view call, DriverResult came) {
  return ExpectResult(file, line, call, DriverResult::kSuccess, came);
}

bool CheckResult::ExpectRefusal(absl::string_view file, int line,
                                absl::string_view call, DriverResult came) {
  if (IsRefusal(came)) return true;
  Fail(file, line,
       absl::StrCat("expected ", call, " to be refused, came ", Spell(came)));
  return false;
}

bool CheckResult::ExpectResult(absl::string_view file, int line,
                               absl::string_view call, DriverResult expected,
                               DriverResult came) {
  if (came == expected) return true;
  Fail(file, line,
       absl::StrCat("expected ", call, " to give ", Spell(expected), ", came ",
                    Spell(came)));
  return false;
}

bool CheckResult::ExpectTrue(absl::string_view file, int line,
                             absl::string_view condition, bool came) {
  if (!came) {
    Fail(file, line, absl::StrCat("expected ", condition, ", came false"));
  }
  return came;
}

std::vector<Check> AllChecks() {
  std::vector<Check> checks = Registry();
  std::sort(checks.begin(), checks.end(),
            [](const Check& a, const Check& b) { return a.name < b.name; });
  return checks;
}

const Check* FindCheck(const std::vector<Check>& checks,
                       absl::string_view name) {
  for (const Check& check : checks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

bool RegisterCheck(absl::string_view area, absl::string_view rule,
                   CheckFunction function, Source source, uint32_t traits) {
  Registry().push_back(
      Check{absl::StrCat(area, ".", rule), source, traits, function});
  return true;
}

}  // namespace firn::contract

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract suite's checks: each is one rule of CUDA's virtual memory
// management or of what it stands on, with the source of the rule. One
// implementation runs on every driver. Checks register themselves, as tests of
// a test framework do.

#ifndef FIRN_TESTS_CONTRACT_CHECK_H_
#define FIRN_TESTS_CONTRACT_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/driver_types.h"

namespace firn::contract {

class ContractDevice;

// How far a rule binds. A check demands an exact error code only where the
// source names it; else any refusal will do.
enum class SourceKind {
  kDocumented,  // NVIDIA says so
  kObserved,    // others saw NVIDIA's driver behave so, or rely on it
  kInferred,    // follows from what NVIDIA says
  kStrict,      // the CPU driver's own rule where NVIDIA leaves things open
};
absl::string_view SourceKindName(SourceKind kind);

struct Source {
  SourceKind kind;
  absl::string_view text;
};
constexpr Source Documented(absl::string_view text) {
  return {SourceKind::kDocumented, text};
}
constexpr Source Observed(absl::string_view text) {
  return {SourceKind::kObserved, text};
}
constexpr Source Inferred(absl::string_view text) {
  return {SourceKind::kInferred, text};
}
// Runs on the CPU driver only.
constexpr Source Strict(absl::string_view text) {
  return {SourceKind::kStrict, text};
}

// What a check needs, and what it does to its process. A bit set.
enum Trait : uint32_t {
  kNoTraits = 0,
  kKernels = 1,        // launches host functions as kernels
  kTwoDevices = 2,     // a second device, each a peer of the other
  kOwnProcess = 4,     // loses the device, forks, or leaves things behind
  kLazy = 8,           // Unmap and SetAccess wait for no work
  kDraining = 16,      // they wait for all of it
  kOwnMemoryInfo = 32  // no other process changes the free memory
};

// What came of one run of a check. Not for several threads.
class CheckResult {
 public:
  void Fail(absl::string_view file, int line, absl::string_view what);
  void Skip(absl::string_view reason) { skip_reason_ = std::string(reason); }

  // The expectations behind the macros below: false, and a failure noted, when
  // it is not so.
  bool ExpectSuccess(absl::string_view file, int line, absl::string_view call,
                     DriverResult came);
  bool ExpectRefusal(absl::string_view file, int line, absl::string_view call,
                     DriverResult came);
  bool ExpectResult(absl::string_view file, int line, absl::string_view call,
                    DriverResult expected, DriverResult came);
  bool ExpectTrue(absl::string_view file, int line, absl::string_view condition,
                  bool came);
  template <typename A, typename B>
  bool ExpectEqual(absl::string_view file, int line, absl::string_view what,
                   const A& expected, const B& came) {
    if (came == expected) return true;
    Fail(file, line,
         absl::StrCat("expected ", what, " to be ", expected, ", came ", came));
    return false;
  }

  // One line each.
  const std::vector<std::string>& failures() const { return failures_; }
  // Empty unless the check found that the device cannot do it.
  const std::string& skip_reason() const { return skip_reason_; }

 private:
  std::vector<std::string> failures_;
  std::string skip_reason_;
};

using CheckFunction = void (*)(ContractDevice& device, CheckResult& result);

struct Check {
  std::string name;  // "area.rule_in_words"
  Source source;
  uint32_t traits;
  CheckFunction function;

  bool Has(Trait trait) const { return (traits & trait) != 0; }
};

// All checks, by name.
std::vector<Check> AllChecks();
// nullptr if there is none.
const Check* FindCheck(const std::vector<Check>& checks,
                       absl::string_view name);

// For FIRN_CONTRACT.
bool RegisterCheck(absl::string_view area, absl::string_view rule,
                   CheckFunction function, Source source,
                   uint32_t traits = kNoTraits);

}  // namespace firn::contract

// FIRN_CONTRACT(area, rule, source[, traits]) { ... device ... result ... }
#define FIRN_CONTRACT(area, rule, ...)                               \
  static void area##_##rule(ContractDevice& device [[maybe_unused]], \
                            CheckResult& result [[maybe_unused]]);   \
  static const bool area##_##rule##_registered =                     \
      RegisterCheck(#area, #rule, &area##_##rule, __VA_ARGS__);      \
  static void area##_##rule(ContractDevice& device [[maybe_unused]], \
                            CheckResult& result [[maybe_unused]])

// Each of these ends the check when what it expects is not so.
// The call succeeds.
#define FIRN_WORKS(call)                                                  \
  do {                                                                    \
    if (!result.ExpectSuccess(__FILE__, __LINE__, #call, (call))) return; \
  } while (false)
// The call is refused, with any code that does not mean that the device is
// lost or merely busy.
#define FIRN_REFUSES(call)                                                \
  do {                                                                    \
    if (!result.ExpectRefusal(__FILE__, __LINE__, #call, (call))) return; \
  } while (false)
// The call gives exactly this result.
#define FIRN_GIVES(expected, call)                                           \
  do {                                                                       \
    if (!result.ExpectResult(__FILE__, __LINE__, #call, (expected), (call))) \
      return;                                                                \
  } while (false)
#define FIRN_HOLDS(condition)                                            \
  do {                                                                   \
    if (!result.ExpectTrue(__FILE__, __LINE__, #condition, (condition))) \
      return;                                                            \
  } while (false)
#define FIRN_EQUALS(expected, came)                                         \
  do {                                                                      \
    if (!result.ExpectEqual(__FILE__, __LINE__, #came, (expected), (came))) \
      return;                                                               \
  } while (false)
// Ends the check as one that this device cannot serve.
#define FIRN_NEEDS(condition, reason) \
  do {                                \
    if (!(condition)) {               \
      result.Skip(reason);            \
      return;                         \
    }                                 \
  } while (false)

#endif  // FIRN_TESTS_CONTRACT_CHECK_H_

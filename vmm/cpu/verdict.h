// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a part of the CPU driver says to a call: its result, and the rule that a
// refused call breaks.

#ifndef FIRN_VMM_CPU_VERDICT_H_
#define FIRN_VMM_CPU_VERDICT_H_

#include "absl/base/optimization.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

struct [[nodiscard]] Verdict {
  DriverResult result = DriverResult::kSuccess;
  // A sentence without a full stop that says what would be right; lives for
  // ever. nullptr unless the call is refused for a rule.
  const char* rule = nullptr;

  // What is refused is laid out of the way: between the system calls of a remap
  // every line of code that is not there counts.
  bool ok() const {
    return ABSL_PREDICT_TRUE(result == DriverResult::kSuccess);
  }
  bool is_misuse() const { return ABSL_PREDICT_FALSE(rule != nullptr); }
};

inline Verdict Allow() { return Verdict(); }
inline Verdict Refuse(DriverResult result, const char* rule) {
  return Verdict{result, rule};
}
// The most frequent refusal.
inline Verdict RefuseValue(const char* rule) {
  return Verdict{DriverResult::kInvalidValue, rule};
}

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_VERDICT_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs sequences of operations, and cuts one that fails down to what is needed
// to fail.

#ifndef FIRN_TESTS_CORE_PROPERTY_SEQUENCE_H_
#define FIRN_TESTS_CORE_PROPERTY_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "tests/core/property/operation.h"
#include "tests/core/property/setting.h"
#include "tests/core/property/state.h"

namespace firn::testing::property {

// What became of a sequence.
struct Outcome {
  // What is wrong; empty if nothing.
  std::string failure;
  // Operations performed.
  size_t performed = 0;
  StepCounts counts;
};

// Performs the operations and gives everything back. Looks at everything after
// every `check_every`-th operation, and after each one that something moved or
// failed in.
Outcome RunSequence(const Setting& setting,
                    const std::vector<Operation>& operations,
                    uint64_t check_every);
// The same on a state that nothing was done to.
Outcome RunSequence(State* state, const std::vector<Operation>& operations,
                    uint64_t check_every);

// Operations of a sequence that `fails`, without those that it fails without;
// tries for so long.
std::vector<Operation> Shrink(
    std::vector<Operation> operations,
    absl::FunctionRef<bool(const std::vector<Operation>&)> fails,
    absl::Duration most_time);

// Runs drawn operations in sequences of settings of their own. Empty, or what
// went wrong, with a test that shows it. Adds to `counts`.
std::string RunDrawn(CpuStorage storage, CpuSync sync, uint64_t seed,
                     uint64_t steps, uint64_t check_every, StepCounts* counts);

// The failure and the sequence as a test.
std::string Describe(const Setting& setting,
                     const std::vector<Operation>& operations,
                     const Outcome& outcome);

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_SEQUENCE_H_

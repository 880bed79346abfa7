// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs the contract suite's program for tests of it.

#ifndef FIRN_TESTS_CONTRACT_PROGRAM_OUTPUT_H_
#define FIRN_TESTS_CONTRACT_PROGRAM_OUTPUT_H_

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/support/program_run.h"

namespace firn::contract {

inline testing::Ended RunContractTests(absl::string_view arguments) {
  return testing::RunProgram(absl::StrCat(FIRN_CONTRACT_TESTS, " ", arguments));
}

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_PROGRAM_OUTPUT_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs the contract suite's program for tests of it.

#ifndef FIRN_TESTS_CONTRACT_PROGRAM_OUTPUT_H_
#define FIRN_TESTS_CONTRACT_PROGRAM_OUTPUT_H_

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace firn::contract {

struct Ended {
  int exit_status = -1;  // -1 if a signal ended it
  std::string output;    // both streams
};

inline Ended RunContractTests(absl::string_view arguments) {
  const std::string command =
      absl::StrCat(FIRN_CONTRACT_TESTS, " ", arguments, " 2>&1");
  Ended ended;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ended;
  std::array<char, 512> chunk;
  while (std::fgets(chunk.data(), static_cast<int>(chunk.size()), pipe) !=
         nullptr) {
    ended.output += chunk.data();
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ended.exit_status = WEXITSTATUS(status);
  return ended;
}

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_PROGRAM_OUTPUT_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs programs for tests of them.

#ifndef FIRN_TESTS_SUPPORT_PROGRAM_RUN_H_
#define FIRN_TESTS_SUPPORT_PROGRAM_RUN_H_

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

namespace firn::testing {

struct Ended {
  int exit_status = -1;  // -1 if a signal ended it
  std::string output;    // both streams
};

inline Ended RunProgram(const std::string& command) {
  Ended ended;
  std::FILE* const pipe = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
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

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_PROGRAM_RUN_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs firn_replay's command within a test.

#ifndef FIRN_TESTS_BENCH_REPLAY_COMMAND_RUN_H_
#define FIRN_TESTS_BENCH_REPLAY_COMMAND_RUN_H_

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bench/replay/replay_command.h"

namespace firn::bench {

struct Outcome {
  int exit_status = -1;
  std::string out;
  std::string err;
};

inline Outcome RunCommand(const std::vector<std::string>& args) {
  const std::vector<absl::string_view> views(args.begin(), args.end());
  std::ostringstream out;
  std::ostringstream err;
  Outcome outcome;
  outcome.exit_status = RunReplayCommand(views, out, err, false);
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

}  // namespace firn::bench

#endif  // FIRN_TESTS_BENCH_REPLAY_COMMAND_RUN_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn_replay: replays a trace of allocations on a policy. See --help.

#include <unistd.h>

#include <iostream>
#include <vector>

#include "absl/strings/string_view.h"
#include "bench/replay/replay_command.h"

int main(int argc, char** argv) {
  const std::vector<absl::string_view> args(argv + (argc > 0 ? 1 : 0),
                                            argv + argc);
  return firn::bench::RunReplayCommand(args, std::cout, std::cerr,
                                       isatty(STDERR_FILENO) != 0);
}

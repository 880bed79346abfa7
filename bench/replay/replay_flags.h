// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The command line of firn_replay.

#ifndef FIRN_BENCH_REPLAY_REPLAY_FLAGS_H_
#define FIRN_BENCH_REPLAY_REPLAY_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/policies/policy_options.h"
#include "bench/replay/capacity.h"

namespace firn::bench {

struct ReplayFlags {
  std::string trace;
  Capacity capacity;
  // All but capacity_bytes, which may depend on the trace.
  PolicyOptions policy;
  uint64_t full_passes = 0;     // spread over the trace
  std::string export_rmm;       // a file to write the trace to; empty: none
  std::string usage_series;     // a file for it; empty: none
  std::string export_snapshot;  // a file for the pool's at the trace's peak
  bool json = false;
  bool help = false;  // nothing else is to be done
};

// `args` without the program's name. InvalidArgument names flag and value and
// says what would be right, in one line.
absl::StatusOr<ReplayFlags> ParseReplayFlags(
    absl::Span<const absl::string_view> args);

// What --help prints.
std::string ReplayHelp();

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_REPLAY_FLAGS_H_

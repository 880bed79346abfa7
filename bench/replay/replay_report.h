// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a replay found, for programs and for people.

#ifndef FIRN_BENCH_REPLAY_REPLAY_REPORT_H_
#define FIRN_BENCH_REPLAY_REPLAY_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "bench/replay/replay_engine.h"

namespace firn::bench {

struct ReplayResult {
  std::string trace;
  std::string policy;
  uint64_t capacity_bytes = 0;
  // How much could be wasted before live memory moved; only where it moved
  // for that reason.
  std::optional<double> tolerated_waste_percent;
  // The least capacity that serves every allocation over the trace's peak
  // live bytes; only where it was looked for.
  std::optional<double> min_capacity_over_peak;
  ReplayFigures figures;
  double wall_s = 0;
};

// One JSON object, with a newline. All but the *_ns_* keys and wall_s depend
// on trace and flags alone.
std::string ToJson(const ReplayResult& result);

// A short table of "name value" lines.
std::string ToText(const ReplayResult& result);

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_REPLAY_REPORT_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a replay has to know of a trace before it starts.

#ifndef FIRN_BENCH_REPLAY_TRACE_SUMMARY_H_
#define FIRN_BENCH_REPLAY_TRACE_SUMMARY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "bench/traces/trace.h"

namespace firn::bench {

struct TraceSummary {
  uint64_t events = 0;  // allocations and frees
  uint64_t peak_live_bytes = 0;
  int64_t first_time_us = 0;
  int64_t last_time_us = 0;
};

// Reads `trace` from its start to its end.
absl::StatusOr<TraceSummary> SummarizeTrace(TraceSource* trace);

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_TRACE_SUMMARY_H_

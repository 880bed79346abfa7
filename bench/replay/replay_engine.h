// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Drives one policy through one trace and measures it.

#ifndef FIRN_BENCH_REPLAY_REPLAY_ENGINE_H_
#define FIRN_BENCH_REPLAY_REPLAY_ENGINE_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "bench/policies/policy.h"
#include "bench/replay/full_passes.h"
#include "bench/replay/trace_summary.h"
#include "bench/replay/usage_figures.h"
#include "bench/replay/usage_series.h"
#include "bench/traces/trace.h"

namespace firn::bench {

struct ReplayOptions {
  uint64_t granule_bytes = uint64_t{2} << 20;
  // Whether to end the replay at the first failed allocation, for a caller
  // that only asks whether there is any.
  bool stop_at_failure = false;
  // How many full passes the policy makes, spread evenly over the events.
  uint64_t full_passes = 0;
  // Is told how memory is used all along; not owned, may be null.
  UsageSeries* series = nullptr;
  // Called once, when what the trace keeps live is most; may be empty. An error
  // ends the replay.
  std::function<absl::Status()> at_peak;
  // Called now and then with the number of events done so far; may be empty.
  std::function<void(uint64_t)> on_progress;
};

struct ReplayFigures {
  uint64_t events = 0;         // allocations and frees of the trace
  uint64_t allocs = 0;         // asked for
  uint64_t failed_allocs = 0;  // of them
  uint64_t frees = 0;          // done; blocks that failed are not freed
  uint64_t unknown_frees = 0;  // of addresses the trace never allocated
  uint64_t bytes_allocated = 0;
  uint64_t lower_bound_bytes_at_peak = 0;
  FullPassFigures full_passes;
  UsageFigures usage;
  PolicyReport policy;
  // Of the policy's calls, on this host.
  double alloc_ns_p50 = 0;
  double alloc_ns_p99 = 0;
  double free_ns_p50 = 0;
  double free_ns_p99 = 0;
};

// `summary` is that of `trace`. An error of the trace is returned as it is;
// one of the policy, a failed allocation apart, as Internal, naming the event.
absl::StatusOr<ReplayFigures> Replay(TraceSource* trace,
                                     const TraceSummary& summary,
                                     Policy* policy,
                                     const ReplayOptions& options);

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_REPLAY_ENGINE_H_

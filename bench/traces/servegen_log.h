// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A ServeGen folder as a trace.

#ifndef FIRN_BENCH_TRACES_SERVEGEN_LOG_H_
#define FIRN_BENCH_TRACES_SERVEGEN_LOG_H_

#include <memory>

#include "absl/status/statusor.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// As KV traffic, with the keys of kv_options.h. `events` is reached by drawing
// fewer requests and decoding for as much longer; a trial replay tells how many
// events that makes.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenServeGenFolder(
    const TraceSpec& spec);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_SERVEGEN_LOG_H_

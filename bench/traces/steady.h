// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// gen:steady: a training step that repeats exactly, so that a pool has nothing
// left to ask of the driver after the first.
//
// gen:training (training.h) with one sequence length for all micro-batches, and
// with neither evaluations nor checkpoints: sizes, order and distances in time
// are those of the first step in every other. Nothing is drawn.

#ifndef FIRN_BENCH_TRACES_STEADY_H_
#define FIRN_BENCH_TRACES_STEADY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// Keys: steps, step_ms, layers, hidden, heads, vocab, batch, seq, accumulate,
// shards, as gen:training has them, but one length in seq: 512; seed, which
// changes nothing.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenSteady(const TraceSpec& spec);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_STEADY_H_

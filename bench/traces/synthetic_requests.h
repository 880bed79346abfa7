// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// gen:kv: an hour of made-up requests, for KV traffic without a recorded log.

#ifndef FIRN_BENCH_TRACES_SYNTHETIC_REQUESTS_H_
#define FIRN_BENCH_TRACES_SYNTHETIC_REQUESTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/traces/request.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// One hour of a Poisson process of 5 requests a second. Prompts are log-normal
// with a median of 700 tokens and a sigma of 1 (mean 1150), at most 16,384;
// answers with a median of 140 and a sigma of 0.9 (mean 210), at most 1,000;
// both at least 1.
std::vector<Request> SyntheticRequests(uint64_t seed);

// Those as KV traffic, with the keys of kv_options.h.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenSyntheticRequests(
    const TraceSpec& spec);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_SYNTHETIC_REQUESTS_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// BurstGPT's logs of requests to the ChatGPT and GPT-4 services: a CSV file
// with the columns Timestamp (seconds, which may have a fraction), Request
// tokens and Response tokens, found by name. As KV traffic: OpenCsvRequestLog.
//
// Other columns (Session ID, Elapsed time, Model, Total tokens, Log Type) are
// ignored. Model too: which model's blocks a request gets is drawn, as for
// every log. A request that failed has 0 response tokens: its prompt was
// stored, so it holds its blocks for a moment and ends at once.

#ifndef FIRN_BENCH_TRACES_BURSTGPT_LOG_H_
#define FIRN_BENCH_TRACES_BURSTGPT_LOG_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/csv_requests.h"

namespace firn::bench {

// Seconds, up to some 30,000 years, in microseconds.
absl::StatusOr<int64_t> ParseBurstGptTime(absl::string_view text);

inline constexpr CsvRequestFormat kBurstGptLog = {
    .name = "a BurstGPT request log",
    .time_column = "Timestamp",
    .context_column = "Request tokens",
    .generated_column = "Response tokens",
    .parse_time_us = &ParseBurstGptTime};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_BURSTGPT_LOG_H_

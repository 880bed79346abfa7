// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The request logs of Azure's language model inference service: a CSV file with
// the columns TIMESTAMP,ContextTokens,GeneratedTokens, found by name. As KV
// traffic: OpenCsvRequestLog.

#ifndef FIRN_BENCH_TRACES_AZURE_LOG_H_
#define FIRN_BENCH_TRACES_AZURE_LOG_H_

#include "bench/traces/clock_time.h"
#include "bench/traces/csv_requests.h"

namespace firn::bench {

inline constexpr CsvRequestFormat kAzureLog = {
    .name = "an Azure request log",
    .time_column = "TIMESTAMP",
    .context_column = "ContextTokens",
    .generated_column = "GeneratedTokens",
    .parse_time_us = &ParseDateTime};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_AZURE_LOG_H_

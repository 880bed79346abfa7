// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The request logs of Azure's language model inference service: a CSV file with
// the columns TIMESTAMP,ContextTokens,GeneratedTokens, found by name.

#ifndef FIRN_BENCH_TRACES_AZURE_LOG_H_
#define FIRN_BENCH_TRACES_AZURE_LOG_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/request.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// Whether a file whose first line has these fields is meant to be one: two of
// the columns are there.
bool IsAzureLog(const std::vector<absl::string_view>& header);

// All requests, in the order of the file; 16 bytes each. InvalidArgument names
// file, line and column; also for a log without requests.
absl::StatusOr<std::vector<Request>> ReadAzureLog(absl::string_view path);

// As KV traffic, with the keys of kv_options.h.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenAzureLog(
    const TraceSpec& spec);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_AZURE_LOG_H_

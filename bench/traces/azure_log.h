// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The request logs of Azure's language model inference service: a CSV file with
// the columns TIMESTAMP,ContextTokens,GeneratedTokens, found by name.

#ifndef FIRN_BENCH_TRACES_AZURE_LOG_H_
#define FIRN_BENCH_TRACES_AZURE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/csv_reader.h"
#include "bench/traces/request.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// Whether a file whose first line has these fields is meant to be one: two of
// the columns are there.
bool IsAzureLog(const std::vector<absl::string_view>& header);

// The requests as recorded, read as a stream. Errors are InvalidArgument and
// name file, line and column; also for a log without requests. Thread safety:
// none.
class AzureRows : public RequestSource {
 public:
  static absl::StatusOr<std::unique_ptr<RequestSource>> Open(
      absl::string_view path);

  absl::StatusOr<bool> Next(Request* request) override;
  absl::Status Rewind() override;

 private:
  explicit AzureRows(CsvReader rows) : rows_(std::move(rows)) {}

  absl::Status ReadTokens(size_t column, uint32_t* tokens) const;

  CsvReader rows_;
  bool found_any_ = false;
};

// As KV traffic, with the keys of kv_options.h.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenAzureLog(
    const TraceSpec& spec);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_AZURE_LOG_H_

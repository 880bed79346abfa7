// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Logs of requests that are CSV files with a time, a prompt's and an answer's
// number of tokens a row.

#ifndef FIRN_BENCH_TRACES_CSV_REQUESTS_H_
#define FIRN_BENCH_TRACES_CSV_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/csv_reader.h"
#include "bench/traces/request.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// What tells one such format from another.
struct CsvRequestFormat {
  absl::string_view name;  // for messages: "an Azure request log"
  // Found by name, in any order, with others between them.
  absl::string_view time_column;
  absl::string_view context_column;
  absl::string_view generated_column;
  // The time column in microseconds, of any origin. Errors are fit to follow
  // "FILE:LINE: column: ".
  absl::StatusOr<int64_t> (*parse_time_us)(absl::string_view text);
};

// Whether a file whose first line has these fields is meant to be one of that
// format: two of the columns are there.
bool HasColumnsOf(const CsvRequestFormat& format,
                  const std::vector<absl::string_view>& header);

// The requests as recorded, read as a stream. Errors are InvalidArgument and
// name file, line and column; also for a log without requests. Thread safety:
// none.
class CsvRequests : public RequestSource {
 public:
  // `format` must outlive the source.
  static absl::StatusOr<std::unique_ptr<RequestSource>> Open(
      absl::string_view path, const CsvRequestFormat& format);

  absl::StatusOr<bool> Next(Request* request) override;
  absl::Status Rewind() override;

 private:
  CsvRequests(CsvReader rows, const CsvRequestFormat& format)
      : rows_(std::move(rows)), format_(format) {}

  absl::Status ReadTokens(size_t column, uint32_t* tokens) const;

  CsvReader rows_;
  const CsvRequestFormat& format_;
  bool found_any_ = false;
};

// As KV traffic, with the keys of kv_options.h. `format` must outlive it.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenCsvRequestLog(
    const TraceSpec& spec, const CsvRequestFormat& format);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_CSV_REQUESTS_H_

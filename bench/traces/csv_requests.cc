// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/csv_requests.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/kv_traffic.h"
#include "bench/traces/request_tokens.h"
#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

enum Column : size_t { kTime, kContext, kGenerated };

std::vector<std::string> ColumnsOf(const CsvRequestFormat& format) {
  return {std::string(format.time_column), std::string(format.context_column),
          std::string(format.generated_column)};
}

}  // namespace

bool HasColumnsOf(const CsvRequestFormat& format,
                  const std::vector<absl::string_view>& header) {
  size_t found = 0;
  for (const std::string& column : ColumnsOf(format)) {
    if (std::find(header.begin(), header.end(), column) != header.end()) {
      ++found;
    }
  }
  return found >= 2;
}

absl::StatusOr<std::unique_ptr<RequestSource>> CsvRequests::Open(
    absl::string_view path, const CsvRequestFormat& format) {
  absl::StatusOr<CsvReader> rows = CsvReader::Open(path, ColumnsOf(format));
  if (!rows.ok()) return rows.status();
  return std::unique_ptr<RequestSource>(
      new CsvRequests(*std::move(rows), format));
}

absl::StatusOr<bool> CsvRequests::Next(Request* request) {
  absl::StatusOr<bool> row = rows_.NextRow();
  if (!row.ok()) return row.status();
  if (!*row && !found_any_) {
    return absl::InvalidArgumentError(absl::StrCat(
        rows_.path(),
        ": a header and no request; one line a request is expected"));
  }
  if (!*row) return false;
  found_any_ = true;
  absl::StatusOr<int64_t> time_us = format_.parse_time_us(rows_.field(kTime));
  if (!time_us.ok()) return rows_.FieldError(kTime, time_us.status().message());
  request->time_us = *time_us;
  absl::Status status = ReadTokens(kContext, &request->context_tokens);
  if (status.ok()) status = ReadTokens(kGenerated, &request->generated_tokens);
  if (!status.ok()) return status;
  return true;
}

absl::Status CsvRequests::ReadTokens(size_t column, uint32_t* tokens) const {
  absl::StatusOr<uint32_t> number = ParseRequestTokens(rows_.field(column));
  if (!number.ok()) return rows_.FieldError(column, number.status().message());
  *tokens = *number;
  return absl::OkStatus();
}

absl::Status CsvRequests::Rewind() { return rows_.Rewind(); }

absl::StatusOr<std::unique_ptr<TraceSource>> OpenCsvRequestLog(
    const TraceSpec& spec, const CsvRequestFormat& format) {
  TraceKeys keys(spec, format.name);
  const KvOptions options = ReadKvOptions(&keys);
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<RequestSource>> rows =
      CsvRequests::Open(spec.path, format);
  if (!rows.ok()) return rows.status();
  return OpenKvTrafficOfLog(spec.text, *std::move(rows), options);
}

}  // namespace firn::bench

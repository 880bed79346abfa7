// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/azure_log.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/clock_time.h"
#include "bench/traces/csv_reader.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/kv_traffic.h"
#include "bench/traces/trace_keys.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

enum Column : size_t { kTimestamp, kContextTokens, kGeneratedTokens };

std::vector<std::string> Columns() {
  return {"TIMESTAMP", "ContextTokens", "GeneratedTokens"};
}

absl::Status ReadTokens(const CsvReader& rows, size_t column,
                        uint32_t* tokens) {
  absl::StatusOr<uint64_t> number = ParseWholeNumber(rows.field(column));
  if (!number.ok()) {
    return rows.FieldError(column, number.status().message());
  }
  if (*number > kMaxRequestTokens) {
    return rows.FieldError(column,
                           absl::StrCat(*number,
                                        " is more than any model's context; at "
                                        "most ",
                                        kMaxRequestTokens));
  }
  *tokens = static_cast<uint32_t>(*number);
  return absl::OkStatus();
}

}  // namespace

bool IsAzureLog(const std::vector<absl::string_view>& header) {
  size_t found = 0;
  for (const std::string& column : Columns()) {
    if (std::find(header.begin(), header.end(), column) != header.end()) {
      ++found;
    }
  }
  return found >= 2;
}

absl::StatusOr<std::vector<Request>> ReadAzureLog(absl::string_view path) {
  absl::StatusOr<CsvReader> rows = CsvReader::Open(path, Columns());
  if (!rows.ok()) return rows.status();
  std::vector<Request> log;
  while (true) {
    absl::StatusOr<bool> row = rows->NextRow();
    if (!row.ok()) return row.status();
    if (!*row) break;
    Request request;
    absl::StatusOr<int64_t> time_us = ParseDateTime(rows->field(kTimestamp));
    if (!time_us.ok()) {
      return rows->FieldError(kTimestamp, time_us.status().message());
    }
    request.time_us = *time_us;
    absl::Status status =
        ReadTokens(*rows, kContextTokens, &request.context_tokens);
    if (status.ok()) {
      status = ReadTokens(*rows, kGeneratedTokens, &request.generated_tokens);
    }
    if (!status.ok()) return status;
    log.push_back(request);
  }
  if (log.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": a header and no request; one line a request is "
                     "expected"));
  }
  return log;
}

absl::StatusOr<std::unique_ptr<TraceSource>> OpenAzureLog(
    const TraceSpec& spec) {
  TraceKeys keys(spec, "an Azure request log");
  const KvOptions options = ReadKvOptions(&keys);
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  absl::StatusOr<std::vector<Request>> log = ReadAzureLog(spec.path);
  if (!log.ok()) return log.status();
  return OpenKvTraffic(spec.text, *std::move(log), options);
}

}  // namespace firn::bench

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

absl::StatusOr<std::unique_ptr<RequestSource>> AzureRows::Open(
    absl::string_view path) {
  absl::StatusOr<CsvReader> rows = CsvReader::Open(path, Columns());
  if (!rows.ok()) return rows.status();
  return std::unique_ptr<RequestSource>(new AzureRows(*std::move(rows)));
}

absl::StatusOr<bool> AzureRows::Next(Request* request) {
  absl::StatusOr<bool> row = rows_.NextRow();
  if (!row.ok()) return row.status();
  if (!*row && !found_any_) {
    return absl::InvalidArgumentError(absl::StrCat(
        rows_.path(),
        ": a header and no request; one line a request is expected"));
  }
  if (!*row) return false;
  found_any_ = true;
  absl::StatusOr<int64_t> time_us = ParseDateTime(rows_.field(kTimestamp));
  if (!time_us.ok()) {
    return rows_.FieldError(kTimestamp, time_us.status().message());
  }
  request->time_us = *time_us;
  absl::Status status = ReadTokens(kContextTokens, &request->context_tokens);
  if (status.ok()) {
    status = ReadTokens(kGeneratedTokens, &request->generated_tokens);
  }
  if (!status.ok()) return status;
  return true;
}

absl::Status AzureRows::ReadTokens(size_t column, uint32_t* tokens) const {
  absl::StatusOr<uint64_t> number = ParseWholeNumber(rows_.field(column));
  if (!number.ok()) return rows_.FieldError(column, number.status().message());
  if (*number > kMaxRequestTokens) {
    return rows_.FieldError(
        column,
        absl::StrCat(*number, " is more than any model's context; at most ",
                     kMaxRequestTokens));
  }
  *tokens = static_cast<uint32_t>(*number);
  return absl::OkStatus();
}

absl::Status AzureRows::Rewind() { return rows_.Rewind(); }

absl::StatusOr<std::unique_ptr<TraceSource>> OpenAzureLog(
    const TraceSpec& spec) {
  TraceKeys keys(spec, "an Azure request log");
  const KvOptions options = ReadKvOptions(&keys);
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<RequestSource>> rows =
      AzureRows::Open(spec.path);
  if (!rows.ok()) return rows.status();
  return OpenKvTrafficOfLog(spec.text, *std::move(rows), options);
}

}  // namespace firn::bench

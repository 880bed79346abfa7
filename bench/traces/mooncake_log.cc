// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/mooncake_log.h"

#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/clock_time.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/kv_traffic.h"
#include "bench/traces/trace_keys.h"
#include "bench/traces/whole_number.h"
#include "nlohmann/json.hpp"

namespace firn::bench {
namespace {

using Json = nlohmann::json;

constexpr char kTimestamp[] = "timestamp";
constexpr char kInputLength[] = "input_length";
constexpr char kOutputLength[] = "output_length";
constexpr char kHashIds[] = "hash_ids";

// Some 30,000 years, so that microseconds stay in 64 bits.
constexpr uint64_t kMaxTimestampMs = 1'000'000'000'000'000;
// A longer log may be played this many times before names come again.
constexpr uint64_t kMaxHashId = (uint64_t{1} << 40) - 1;

absl::Status FieldError(absl::string_view field, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", reason));
}

// Of `value`, found as `field`. Nothing of a value of another type is quoted:
// it may nest as deep as a line is long. JSON has no integers of its own: 1e3
// and 1000.0 are whole, too.
absl::StatusOr<uint64_t> WholeNumber(const Json& value, absl::string_view field,
                                     uint64_t most, absl::string_view more) {
  if (!value.is_number()) {
    return FieldError(field, absl::StrCat("of type ", value.type_name(),
                                          "; give a whole number"));
  }
  const double real = value.get<double>();
  if (real < 0) {
    return FieldError(
        field, absl::StrCat(value.dump(), " is negative; give 0 or more"));
  }
  if (value.is_number_float() &&
      (real >= 0x1.0p64 || real != std::floor(real))) {
    return FieldError(
        field, absl::StrCat(value.dump(),
                            " is not a whole number of at most 64 bits"));
  }
  const uint64_t number = value.get<uint64_t>();
  if (number > most) {
    return FieldError(field,
                      absl::StrCat(number, " is ", more, "; at most ", most));
  }
  return number;
}

absl::StatusOr<uint64_t> WholeField(const Json& row, const char* field,
                                    uint64_t most, absl::string_view more) {
  const auto value = row.find(field);
  if (value == row.end()) return FieldError(field, "missing");
  return WholeNumber(*value, field, most, more);
}

absl::Status ReadPieces(const Json& row, Request* request) {
  const auto ids = row.find(kHashIds);
  if (ids == row.end()) return FieldError(kHashIds, "missing");
  if (!ids->is_array()) {
    return FieldError(kHashIds, absl::StrCat("of type ", ids->type_name(),
                                             "; give an array"));
  }
  const uint64_t wanted =
      (uint64_t{request->context_tokens} + kMooncakePieceTokens - 1) /
      kMooncakePieceTokens;
  if (ids->size() != wanted) {
    return FieldError(
        kHashIds, absl::StrCat(ids->size(), " numbers for ",
                               request->context_tokens, " tokens; give ",
                               wanted, ", one for each ", kMooncakePieceTokens,
                               " tokens, the last may be for fewer"));
  }
  for (const Json& id : *ids) {
    absl::StatusOr<uint64_t> name =
        WholeNumber(id, kHashIds, kMaxHashId, "too large to number a piece");
    if (!name.ok()) return name.status();
    request->prefix_pieces.push_back(*name);
  }
  return absl::OkStatus();
}

absl::Status ReadRequest(const Json& row, Request* request) {
  constexpr absl::string_view kTooManyTokens = "more than any model's context";
  absl::StatusOr<uint64_t> time_ms =
      WholeField(row, kTimestamp, kMaxTimestampMs, "too late");
  if (!time_ms.ok()) return time_ms.status();
  absl::StatusOr<uint64_t> context =
      WholeField(row, kInputLength, kMaxRequestTokens, kTooManyTokens);
  if (!context.ok()) return context.status();
  absl::StatusOr<uint64_t> generated =
      WholeField(row, kOutputLength, kMaxRequestTokens, kTooManyTokens);
  if (!generated.ok()) return generated.status();
  request->time_us = static_cast<int64_t>(*time_ms) * (kUsPerSecond / 1000);
  request->context_tokens = static_cast<uint32_t>(*context);
  request->generated_tokens = static_cast<uint32_t>(*generated);
  request->prefix_piece_tokens = kMooncakePieceTokens;
  request->prefix_pieces.clear();
  return ReadPieces(row, request);
}

}  // namespace

bool IsMooncakeLog(absl::string_view line) {
  const auto names = [line](const char* field) {
    return absl::StrContains(line, absl::StrCat("\"", field, "\""));
  };
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "{") &&
         (names(kHashIds) || (names(kTimestamp) && names(kInputLength)));
}

absl::StatusOr<std::unique_ptr<RequestSource>> MooncakeRows::Open(
    absl::string_view path) {
  absl::StatusOr<LineReader> lines = LineReader::Open(path);
  if (!lines.ok()) return lines.status();
  return std::unique_ptr<RequestSource>(new MooncakeRows(*std::move(lines)));
}

absl::StatusOr<bool> MooncakeRows::Next(Request* request) {
  absl::string_view line;
  absl::StatusOr<bool> found = lines_.NextNotBlank(&line);
  if (!found.ok()) return found.status();
  if (!*found && !found_any_) {
    return absl::InvalidArgumentError(absl::StrCat(
        lines_.path(), ": no request; one JSON object a line is expected"));
  }
  if (!*found) return false;
  found_any_ = true;
  const Json row = Json::parse(line.begin(), line.end(), /*cb=*/nullptr,
                               /*allow_exceptions=*/false);
  if (!row.is_object()) {
    return lines_.Error(absl::StrCat(
        Quoted(line), row.is_discarded() ? " is no JSON" : " is no JSON object",
        "; give {\"timestamp\": ..., \"input_length\": ..., "
        "\"output_length\": ..., \"hash_ids\": [...]}"));
  }
  absl::Status status = ReadRequest(row, request);
  if (!status.ok()) return lines_.Error(status.message());
  return true;
}

absl::Status MooncakeRows::Rewind() { return lines_.Rewind(); }

absl::StatusOr<std::unique_ptr<TraceSource>> OpenMooncakeLog(
    const TraceSpec& spec) {
  TraceKeys keys(spec, "a Mooncake request log");
  const KvOptions options = ReadKvOptions(&keys, kMooncakePieceTokens);
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<RequestSource>> rows =
      MooncakeRows::Open(spec.path);
  if (!rows.ok()) return rows.status();
  return OpenKvTrafficOfLog(spec.text, *std::move(rows), options);
}

}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/trace_keys.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/traces/byte_count.h"
#include "bench/traces/decimal_number.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

// Longer lists are mistakes.
constexpr size_t kMaxListEntries = 64;

using Parser = absl::StatusOr<uint64_t> (*)(absl::string_view);
using Formatter = std::string (*)(uint64_t);

std::string FormatCount(uint64_t count) { return absl::StrCat(count); }

absl::StatusOr<uint64_t> ParseBetween(absl::string_view text, Parser parse,
                                      Formatter format, uint64_t least,
                                      uint64_t most) {
  absl::StatusOr<uint64_t> value = parse(text);
  if (!value.ok()) return value;
  if (*value < least || *value > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "out of range; give ", format(least), " to ", format(most)));
  }
  return value;
}

absl::StatusOr<std::vector<uint64_t>> ParseListBetween(absl::string_view text,
                                                       Parser parse,
                                                       Formatter format,
                                                       uint64_t least,
                                                       uint64_t most) {
  std::vector<uint64_t> values;
  for (const absl::string_view part : absl::StrSplit(text, '+')) {
    absl::StatusOr<uint64_t> value =
        ParseBetween(part, parse, format, least, most);
    if (!value.ok()) return value.status();
    if (values.size() == kMaxListEntries) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMaxListEntries, " entries"));
    }
    values.push_back(*value);
  }
  return values;
}

}  // namespace

TraceKeys::TraceKeys(const TraceSpec& spec, absl::string_view format)
    : spec_(spec), format_(format) {}

uint64_t TraceKeys::Bytes(absl::string_view key, uint64_t otherwise,
                          uint64_t least, uint64_t most) {
  const std::string* text = Find(key);
  if (text == nullptr) return otherwise;
  absl::StatusOr<uint64_t> value =
      ParseBetween(*text, &ParseByteCount, &FormatByteCount, least, most);
  if (value.ok()) return *value;
  Fail(key, *text, value.status().message());
  return otherwise;
}

std::vector<uint64_t> TraceKeys::ByteList(absl::string_view key,
                                          std::vector<uint64_t> otherwise,
                                          uint64_t most) {
  const std::string* text = Find(key);
  if (text == nullptr) return otherwise;
  absl::StatusOr<std::vector<uint64_t>> values =
      ParseListBetween(*text, &ParseByteCount, &FormatByteCount, 1, most);
  if (values.ok()) return *std::move(values);
  Fail(key, *text, values.status().message());
  return otherwise;
}

uint64_t TraceKeys::Count(absl::string_view key, uint64_t otherwise,
                          uint64_t least, uint64_t most) {
  const std::string* text = Find(key);
  if (text == nullptr) return otherwise;
  absl::StatusOr<uint64_t> value =
      ParseBetween(*text, &ParseCount, &FormatCount, least, most);
  if (value.ok()) return *value;
  Fail(key, *text, value.status().message());
  return otherwise;
}

std::vector<uint64_t> TraceKeys::CountList(absl::string_view key,
                                           std::vector<uint64_t> otherwise,
                                           uint64_t least, uint64_t most) {
  const std::string* text = Find(key);
  if (text == nullptr) return otherwise;
  absl::StatusOr<std::vector<uint64_t>> values =
      ParseListBetween(*text, &ParseCount, &FormatCount, least, most);
  if (values.ok()) return *std::move(values);
  Fail(key, *text, values.status().message());
  return otherwise;
}

double TraceKeys::Real(absl::string_view key, double otherwise, double least,
                       double most) {
  const std::string* text = Find(key);
  if (text == nullptr) return otherwise;
  absl::StatusOr<double> value = ParseDecimal(*text, most);
  if (value.ok() && *value >= least) return *value;
  Fail(key, *text, absl::StrCat("give a number from ", least, " to ", most));
  return otherwise;
}

size_t TraceKeys::Choice(absl::string_view key, size_t otherwise,
                         const std::vector<absl::string_view>& names) {
  const std::string* text = Find(key);
  if (text == nullptr) return otherwise;
  const auto name = std::find(names.begin(), names.end(), *text);
  if (name != names.end()) return static_cast<size_t>(name - names.begin());
  Fail(key, *text, absl::StrCat("give ", absl::StrJoin(names, " or ")));
  return otherwise;
}

std::string TraceKeys::Text(absl::string_view key) {
  const std::string* text = Find(key);
  if (text == nullptr) return std::string();
  if (text->empty()) Fail(key, *text, "empty");
  return *text;
}

void TraceKeys::Refuse(absl::string_view key, absl::string_view reason) {
  const std::string* text = Find(key);
  if (text != nullptr) Fail(key, *text, reason);
}

absl::Status TraceKeys::Finish() const {
  if (!first_error_.ok()) return first_error_;
  for (const TraceKey& given : spec_.keys) {
    if (std::find(known_.begin(), known_.end(), given.key) != known_.end()) {
      continue;
    }
    if (known_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec_.path, ": unknown key ", Quoted(given.key), "; ",
                       format_, " has no keys"));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        spec_.path, ": unknown key ", Quoted(given.key), "; the keys of ",
        format_, " are ", absl::StrJoin(known_, ", ")));
  }
  return absl::OkStatus();
}

const std::string* TraceKeys::Find(absl::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
    known_.emplace_back(key);
  }
  for (const TraceKey& given : spec_.keys) {
    if (given.key == key) return &given.value;
  }
  return nullptr;
}

void TraceKeys::Fail(absl::string_view key, absl::string_view value,
                     absl::string_view reason) {
  if (!first_error_.ok()) return;
  first_error_ = absl::InvalidArgumentError(absl::StrCat(
      spec_.path, ": key ", key, "=", Quoted(value), ": ", reason));
}

}  // namespace firn::bench

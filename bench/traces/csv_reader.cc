// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/csv_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace firn::bench {
namespace {

void SplitInto(absl::string_view line, std::vector<absl::string_view>* fields) {
  fields->clear();
  while (true) {
    const size_t comma = line.find(',');
    fields->push_back(absl::StripAsciiWhitespace(line.substr(0, comma)));
    if (comma == absl::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

std::vector<absl::string_view> SplitCsv(absl::string_view line) {
  std::vector<absl::string_view> fields;
  SplitInto(line, &fields);
  return fields;
}

CsvReader::CsvReader(LineReader lines, std::vector<std::string> columns)
    : lines_(std::move(lines)), columns_(std::move(columns)) {}

absl::StatusOr<CsvReader> CsvReader::Open(absl::string_view path,
                                          std::vector<std::string> columns) {
  absl::StatusOr<LineReader> lines = LineReader::Open(path);
  if (!lines.ok()) return lines.status();
  CsvReader reader(*std::move(lines), std::move(columns));
  if (absl::Status status = reader.ReadHeader(); !status.ok()) return status;
  return reader;
}

absl::Status CsvReader::ReadHeader() {
  absl::string_view line;
  absl::StatusOr<bool> found = lines_.NextNotBlank(&line);
  if (!found.ok()) return found.status();
  if (!*found) {
    return absl::InvalidArgumentError(
        absl::StrCat(lines_.path(),
                     ": the file is empty; its first line "
                     "should be ",
                     absl::StrJoin(columns_, ",")));
  }
  SplitInto(line, &fields_);
  width_ = fields_.size();
  positions_.clear();
  for (const std::string& column : columns_) {
    const auto position = std::find(fields_.begin(), fields_.end(), column);
    if (position == fields_.end()) {
      return lines_.Error(absl::StrCat("no column '", column,
                                       "'; the header should be ",
                                       absl::StrJoin(columns_, ",")));
    }
    positions_.push_back(static_cast<size_t>(position - fields_.begin()));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CsvReader::NextRow() {
  absl::string_view line;
  absl::StatusOr<bool> found = lines_.NextNotBlank(&line);
  if (!found.ok() || !*found) return found;
  SplitInto(line, &fields_);
  if (fields_.size() != width_) {
    return lines_.Error(
        absl::StrCat(fields_.size(), " fields where the header has ", width_));
  }
  return true;
}

absl::Status CsvReader::Rewind() {
  if (absl::Status status = lines_.Rewind(); !status.ok()) return status;
  return ReadHeader();
}

absl::Status CsvReader::FieldError(size_t column,
                                   absl::string_view reason) const {
  return lines_.Error(absl::StrCat(columns_[column], ": ", reason));
}

}  // namespace firn::bench

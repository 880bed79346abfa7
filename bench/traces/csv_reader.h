// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a comma-separated file whose first line names its columns. Blank lines
// do not count, within the limit of LineReader::NextNotBlank.

#ifndef FIRN_BENCH_TRACES_CSV_READER_H_
#define FIRN_BENCH_TRACES_CSV_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/line_reader.h"

namespace firn::bench {

// Fields without the white space around them; quotes mean nothing.
std::vector<absl::string_view> SplitCsv(absl::string_view line);

// Thread safety: none.
class CsvReader {
 public:
  // Reads the header. The columns may come in any order, with others between
  // them. InvalidArgument names the first that is missing.
  static absl::StatusOr<CsvReader> Open(absl::string_view path,
                                        std::vector<std::string> columns);

  // Reads the next row that is not blank; false at the end of the file.
  absl::StatusOr<bool> NextRow();

  // Back to the first row.
  absl::Status Rewind();

  // Of the current row: the field of columns[column], valid until NextRow.
  absl::string_view field(size_t column) const {
    return fields_[positions_[column]];
  }

  const std::string& path() const { return lines_.path(); }
  uint64_t line_number() const { return lines_.line_number(); }

  // "FILE:LINE: column: reason" for the current row.
  absl::Status FieldError(size_t column, absl::string_view reason) const;

 private:
  CsvReader(LineReader lines, std::vector<std::string> columns);
  absl::Status ReadHeader();

  LineReader lines_;
  std::vector<std::string> columns_;
  std::vector<size_t> positions_;  // of each of columns_ in a row
  size_t width_ = 0;               // fields of the header
  std::vector<absl::string_view> fields_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_CSV_READER_H_

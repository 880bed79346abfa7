// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a file line by line, in constant memory.

#ifndef FIRN_BENCH_TRACES_LINE_READER_H_
#define FIRN_BENCH_TRACES_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/byte_source.h"

namespace firn::bench {

// Thread safety: none.
class LineReader {
 public:
  static constexpr size_t kMaxLineBytes = size_t{64} << 10;
  static constexpr size_t kMaxBlankBytes = 1'000'000;

  static absl::StatusOr<LineReader> Open(absl::string_view path);

  // Sets `line` to the next line, without its end (\n or \r\n; the last line
  // may have none), valid until the next call; false at the end of the file. A
  // byte order mark at the start is left out. InvalidArgument for a line beyond
  // kMaxLineBytes.
  absl::StatusOr<bool> Next(absl::string_view* line);

  // Likewise to the next line that has more than white space. InvalidArgument
  // also for more than kMaxBlankBytes of lines in a row that have not: a small
  // packed file can hold any number of them.
  absl::StatusOr<bool> NextNotBlank(absl::string_view* line);

  absl::Status Rewind();

  const std::string& path() const { return path_; }
  // Of the line that Next gave last; the first is 1.
  uint64_t line_number() const { return line_number_; }

  // InvalidArgument "FILE:LINE: reason" for that line.
  absl::Status Error(absl::string_view reason) const {
    return ErrorAt(line_number_, reason);
  }
  // For another line.
  absl::Status ErrorAt(uint64_t line_number, absl::string_view reason) const;

 private:
  LineReader(std::string path, std::unique_ptr<ByteSource> source);

  std::string path_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what was not given out yet
  size_t end_ = 0;
  bool at_end_ = false;
  uint64_t line_number_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_LINE_READER_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/line_reader.h"

#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace firn::bench {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

LineReader::LineReader(std::string path, std::unique_ptr<ByteSource> source)
    : path_(std::move(path)),
      source_(std::move(source)),
      buffer_(kMaxLineBytes + kReadBytes) {}

absl::StatusOr<LineReader> LineReader::Open(absl::string_view path) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenByteSource(path);
  if (!source.ok()) return source.status();
  return LineReader(std::string(path), *std::move(source));
}

absl::StatusOr<bool> LineReader::Next(absl::string_view* line) {
  size_t searched = begin_;
  while (true) {
    const char* newline = static_cast<const char*>(
        std::memchr(buffer_.data() + searched, '\n', end_ - searched));
    const bool whole = newline != nullptr || at_end_;
    const size_t line_end = newline == nullptr
                                ? end_
                                : static_cast<size_t>(newline - buffer_.data());
    if (line_end - begin_ > kMaxLineBytes) {
      ++line_number_;
      return Error(absl::StrCat("a line of more than ", kMaxLineBytes,
                                " characters, the most that is read"));
    }
    if (whole) {
      if (newline == nullptr && begin_ == end_) return false;
      ++line_number_;
      *line = absl::string_view(buffer_.data() + begin_, line_end - begin_);
      begin_ = newline == nullptr ? end_ : line_end + 1;
      if (line_number_ == 1) *line = absl::StripPrefix(*line, kByteOrderMark);
      *line = absl::StripSuffix(*line, "\r");
      return true;
    }
    searched = end_ - begin_;
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    absl::StatusOr<size_t> count =
        source_->Read(buffer_.data() + end_, buffer_.size() - end_);
    if (!count.ok()) return count.status();
    end_ += *count;
    at_end_ = *count == 0;
  }
}

absl::StatusOr<bool> LineReader::NextNotBlank(absl::string_view* line) {
  size_t blank_bytes = 0;
  while (true) {
    absl::StatusOr<bool> found = Next(line);
    if (!found.ok() || !*found) return found;
    if (!absl::StripAsciiWhitespace(*line).empty()) return true;
    blank_bytes += line->size() + 1;
    if (blank_bytes > kMaxBlankBytes) {
      return Error(absl::StrCat("more than ", kMaxBlankBytes,
                                " characters of blank lines in a row; leave "
                                "them out"));
    }
  }
}

absl::Status LineReader::Rewind() {
  begin_ = end_ = 0;
  at_end_ = false;
  line_number_ = 0;
  return source_->Rewind();
}

absl::Status LineReader::ErrorAt(uint64_t line_number,
                                 absl::string_view reason) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ":", line_number, ": ", reason));
}

}  // namespace firn::bench

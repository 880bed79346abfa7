// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a trace file, unpacked on the way when it is a gzip or Zstandard
// file. Which it is shows in its first bytes; names do not matter.

#ifndef FIRN_BENCH_TRACES_BYTE_SOURCE_H_
#define FIRN_BENCH_TRACES_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

// Thread safety: none. Memory does not grow with the file.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills up to `capacity` (at least 1) bytes; 0 means the end. An error names
  // the file.
  virtual absl::StatusOr<size_t> Read(char* buffer, size_t capacity) = 0;

  // Starts again at the first byte.
  virtual absl::Status Rewind() = 0;
};

// NotFound for a missing file; InvalidArgument for what is no regular file.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(
    absl::string_view path);

// All bytes of `path`, unpacked. InvalidArgument beyond `most_bytes`, or beyond
// 64 MiB and 200 times the size of the file.
absl::StatusOr<std::string> ReadAllBytes(absl::string_view path,
                                         uint64_t most_bytes);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_BYTE_SOURCE_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/chunked_source.h"

namespace firn::bench {

absl::StatusOr<bool> ChunkedSource::Next(TraceEvent* event) {
  while (next_ == chunk_.size()) {
    chunk_.clear();
    next_ = 0;
    absl::StatusOr<bool> filled = FillChunk();
    if (!filled.ok() || !*filled) return filled;
  }
  *event = chunk_[next_++];
  return true;
}

absl::Status ChunkedSource::Rewind() {
  chunk_.clear();
  next_ = 0;
  ids_.Clear();
  return Restart();
}

}  // namespace firn::bench

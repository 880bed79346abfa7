// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/block_limit.h"

#include "absl/strings/str_cat.h"
#include "bench/traces/byte_count.h"

namespace firn::bench {

absl::Status CheckBlockLimit(absl::string_view path, uint64_t live_bytes,
                             absl::string_view key, uint64_t block_bytes) {
  const uint64_t blocks = live_bytes / block_bytes;
  if (blocks <= kMaxGeneratedBlocks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": live=", FormatByteCount(live_bytes), " is ", blocks,
      " blocks of ", FormatByteCount(block_bytes), ", more than ",
      kMaxGeneratedBlocks, "; give a larger ", key, " or less live"));
}

}  // namespace firn::bench

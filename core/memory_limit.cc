// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/memory_limit.h"

#include "absl/strings/str_cat.h"

namespace firn {

absl::Status MemoryLimit::Validate(uint64_t capacity_bytes) const {
  if (hard_bytes > capacity_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("limit.hard_bytes: ", hard_bytes,
                     "; must be at most the capacity, ", capacity_bytes));
  }
  const uint64_t most_bytes = hard_bytes > 0 ? hard_bytes : capacity_bytes;
  if (soft_bytes > most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("limit.soft_bytes: ", soft_bytes,
                     "; must be at most the hard limit, ", most_bytes));
  }
  return absl::OkStatus();
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much memory a pool, or a domain of it, may have.

#ifndef FIRN_CORE_MEMORY_LIMIT_H_
#define FIRN_CORE_MEMORY_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"

namespace firn {

// In bytes of whole granules, rounded down.
struct MemoryLimit {
  // Nothing is created or taken beyond it; 0: no limit but those around this
  // one.
  uint64_t hard_bytes = 0;
  // Exceeded only where an allocation would fail otherwise, after all that can
  // be recovered has been; what a pool holds for nothing beyond it goes back to
  // the driver, as far as that needs no waiting. At most hard_bytes; 0: none.
  uint64_t soft_bytes = 0;

  // OkStatus, or InvalidArgument naming the field, its value and what would be
  // right, where at most `capacity_bytes` can be had.
  absl::Status Validate(uint64_t capacity_bytes) const;
};

}  // namespace firn

#endif  // FIRN_CORE_MEMORY_LIMIT_H_

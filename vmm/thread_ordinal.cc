// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/thread_ordinal.h"

#include <atomic>

namespace firn {

uint64_t ThisThreadOrdinal() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t ordinal = ++last;
  return ordinal;
}

}  // namespace firn

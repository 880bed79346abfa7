// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/thread_ordinal.h"

#include <atomic>

namespace firn::thread_ordinal_internal {

uint64_t TakeNext() {
  static std::atomic<uint64_t> last{0};
  this_threads = ++last;
  return this_threads;
}

}  // namespace firn::thread_ordinal_internal

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Small numbers for the threads of the process, for logs and virtual clocks.

#ifndef FIRN_VMM_THREAD_ORDINAL_H_
#define FIRN_VMM_THREAD_ORDINAL_H_

#include <cstdint>

#include "absl/base/attributes.h"

namespace firn {
namespace thread_ordinal_internal {

// 0: this thread has not asked yet.
ABSL_CONST_INIT inline thread_local uint64_t this_threads = 0;

// The next one, which from now on is this thread's.
uint64_t TakeNext();

}  // namespace thread_ordinal_internal

// 1 for the first thread that asks, 2 for the second, and so on. Never used
// again when a thread has ended, unlike the system's ids.
inline uint64_t ThisThreadOrdinal() {
  const uint64_t ordinal = thread_ordinal_internal::this_threads;
  return ordinal != 0 ? ordinal : thread_ordinal_internal::TakeNext();
}

}  // namespace firn

#endif  // FIRN_VMM_THREAD_ORDINAL_H_

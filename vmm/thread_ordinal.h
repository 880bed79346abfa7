// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Small numbers for the threads of the process, for logs and virtual clocks.

#ifndef FIRN_VMM_THREAD_ORDINAL_H_
#define FIRN_VMM_THREAD_ORDINAL_H_

#include <cstdint>

namespace firn {

// 1 for the first thread that asks, 2 for the second, and so on. Never used
// again when a thread has ended, unlike the system's ids.
uint64_t ThisThreadOrdinal();

}  // namespace firn

#endif  // FIRN_VMM_THREAD_ORDINAL_H_

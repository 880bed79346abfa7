// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Ids and handles that no two things of the process ever share, so that one
// that is mixed up or outdated is never taken for another.

#ifndef FIRN_VMM_CPU_UNIQUE_HANDLE_H_
#define FIRN_VMM_CPU_UNIQUE_HANDLE_H_

#include <atomic>
#include <cstdint>

namespace firn::cpu {

inline uint64_t NextUniqueId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// A value that looks like a pointer and is none: nothing may follow it.
template <typename Handle>
Handle MakeHandle(uint64_t id) {
  constexpr int kShift = 4;
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(id << kShift));
}

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_UNIQUE_HANDLE_H_

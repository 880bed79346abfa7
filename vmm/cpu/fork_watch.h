// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tells a process that made a driver from its forked children, in which the
// driver's threads do not exist.

#ifndef FIRN_VMM_CPU_FORK_WATCH_H_
#define FIRN_VMM_CPU_FORK_WATCH_H_

#include <atomic>
#include <cstdint>

namespace firn::cpu {

// Thread safety: immutable.
class ForkWatch {
 public:
  // Watches from now on.
  ForkWatch();

  bool in_child() const {
    return forks_.load(std::memory_order_relaxed) != forks_before_;
  }

 private:
  static void CountFork() { forks_.fetch_add(1); }

  // From the first process to this one.
  static std::atomic<uint32_t> forks_;
  const uint32_t forks_before_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_FORK_WATCH_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A lock for critical sections of a few instructions that hardly ever meet: one
// atomic exchange to take, one store to give back.

#ifndef FIRN_VMM_LIGHT_LOCK_H_
#define FIRN_VMM_LIGHT_LOCK_H_

#include <atomic>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace firn {

// Nothing that may block is done under it. A thread that finds it taken spins,
// and lets others run before long, as its holder may have been preempted.
class ABSL_LOCKABLE LightLock {
 public:
  LightLock() = default;
  LightLock(const LightLock&) = delete;
  LightLock& operator=(const LightLock&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    while (is_taken_.exchange(true, std::memory_order_acquire)) WaitUntilFree();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    is_taken_.store(false, std::memory_order_release);
  }

 private:
  [[gnu::noinline, gnu::cold]] void WaitUntilFree() const {
    constexpr int kSpins = 64;
    for (int i = 0; is_taken_.load(std::memory_order_relaxed); ++i) {
      if (i >= kSpins) std::this_thread::yield();
    }
  }

  std::atomic<bool> is_taken_{false};
};

// Holds a LightLock for a scope.
class ABSL_SCOPED_LOCKABLE LightLockHolder {
 public:
  explicit LightLockHolder(LightLock* lock) ABSL_EXCLUSIVE_LOCK_FUNCTION(lock)
      : lock_(lock) {
    lock_->Lock();
  }
  ~LightLockHolder() ABSL_UNLOCK_FUNCTION() { lock_->Unlock(); }
  LightLockHolder(const LightLockHolder&) = delete;
  LightLockHolder& operator=(const LightLockHolder&) = delete;

 private:
  LightLock* const lock_;
};

}  // namespace firn

#endif  // FIRN_VMM_LIGHT_LOCK_H_

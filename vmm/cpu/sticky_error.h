// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The error that a lost device returns from then on.

#ifndef FIRN_VMM_CPU_STICKY_ERROR_H_
#define FIRN_VMM_CPU_STICKY_ERROR_H_

#include <atomic>
#include <cstdint>

#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Thread safety: all methods may be called from any thread and from signal
// handlers.
class StickyError {
 public:
  // The first error stays; true for that one.
  bool Latch(DriverResult error) {
    int32_t none = 0;
    return error_.compare_exchange_strong(none, static_cast<int32_t>(error));
  }
  // kSuccess while the device is not lost.
  DriverResult get() const {
    return static_cast<DriverResult>(error_.load(std::memory_order_acquire));
  }
  bool latched() const { return get() != DriverResult::kSuccess; }
  // For a device that is wrong on purpose.
  void Forget() { error_.store(0); }

 private:
  std::atomic<int32_t> error_{0};
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_STICKY_ERROR_H_

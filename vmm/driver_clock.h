// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A virtual clock of the threads that call one device's driver. A real driver
// serialises the calls that manage memory, so calls of several threads queue.

#ifndef FIRN_VMM_DRIVER_CLOCK_H_
#define FIRN_VMM_DRIVER_CLOCK_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "firn/vmm/mutex.h"

namespace firn {

// Every thread has a time of its own, in microseconds, which starts at 0. The
// device's driver lock is taken in the order in which calls are charged.
// Thread safety: all methods may be called from any thread at any time.
class DriverClock {
 public:
  struct Charged {
    double start_us = 0;   // when this call got the driver lock
    double waited_us = 0;  // how long the thread waited for it
  };

  // A call of this thread that holds the driver lock for `us`.
  Charged Charge(double us);
  // Work of this thread's own, without the lock.
  void Advance(double us);
  // This thread was started, or woken, by something that happened at `us`: its
  // time is not before that.
  void AdvanceTo(double us);

  // The time of this thread.
  double now_us() const;
  // How long the driver lock was held, and how long threads waited for it, in
  // all.
  double busy_us() const;
  double waited_us() const;

 private:
  mutable Mutex mutex_;
  // By thread ordinal. Threads that have ended stay: a few bytes each.
  absl::flat_hash_map<uint64_t, double> now_us_ ABSL_GUARDED_BY(mutex_);
  double lock_free_at_us_ ABSL_GUARDED_BY(mutex_) = 0;
  double busy_us_ ABSL_GUARDED_BY(mutex_) = 0;
  double waited_us_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_DRIVER_CLOCK_H_

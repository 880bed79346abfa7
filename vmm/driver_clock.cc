// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/driver_clock.h"

#include <algorithm>

#include "firn/vmm/thread_ordinal.h"

namespace firn {

DriverClock::Charged DriverClock::Charge(double us) {
  const MutexLock lock(&mutex_);
  double& now_us = now_us_[ThisThreadOrdinal()];
  Charged charged;
  charged.start_us = std::max(now_us, lock_free_at_us_);
  charged.waited_us = charged.start_us - now_us;
  now_us = charged.start_us + us;
  lock_free_at_us_ = now_us;
  busy_us_ += us;
  waited_us_ += charged.waited_us;
  return charged;
}

void DriverClock::Advance(double us) {
  const MutexLock lock(&mutex_);
  now_us_[ThisThreadOrdinal()] += us;
}

void DriverClock::AdvanceTo(double us) {
  const MutexLock lock(&mutex_);
  double& now_us = now_us_[ThisThreadOrdinal()];
  now_us = std::max(now_us, us);
}

double DriverClock::now_us() const {
  const MutexLock lock(&mutex_);
  const auto it = now_us_.find(ThisThreadOrdinal());
  return it == now_us_.end() ? 0 : it->second;
}

double DriverClock::busy_us() const {
  const MutexLock lock(&mutex_);
  return busy_us_;
}

double DriverClock::waited_us() const {
  const MutexLock lock(&mutex_);
  return waited_us_;
}

}  // namespace firn

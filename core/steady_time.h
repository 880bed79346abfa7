// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Time for threads that work at a rhythm.

#ifndef FIRN_CORE_STEADY_TIME_H_
#define FIRN_CORE_STEADY_TIME_H_

#include <chrono>

#include "absl/time/time.h"

namespace firn {

// Time that never goes back, of which only differences mean anything.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() +
         absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace firn

#endif  // FIRN_CORE_STEADY_TIME_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Time: how much of it a measurement may take, and how long a call took.

#ifndef FIRN_TESTS_GPU_DEADLINE_H_
#define FIRN_TESTS_GPU_DEADLINE_H_

#include <chrono>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace firn::gpu_check {

// Of a clock that is never set.
inline double NowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double TimeUs(absl::FunctionRef<void()> what) {
  const double start_us = NowUs();
  what();
  return NowUs() - start_us;
}

class Deadline {
 public:
  explicit Deadline(absl::Duration left)
      : end_us_(NowUs() + absl::ToDoubleMicroseconds(left)) {}

  bool Passed() const { return NowUs() >= end_us_; }
  // Never negative.
  absl::Duration Left() const {
    const double left_us = end_us_ - NowUs();
    return left_us > 0 ? absl::Microseconds(left_us) : absl::ZeroDuration();
  }
  // After a share of what is left.
  Deadline Share(double share) const { return Deadline(Left() * share); }

 private:
  double end_us_;
};

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_DEADLINE_H_

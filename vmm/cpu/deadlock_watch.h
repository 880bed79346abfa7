// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a wait for the work of streams is taken to be a deadlock.

#ifndef FIRN_VMM_CPU_DEADLOCK_WATCH_H_
#define FIRN_VMM_CPU_DEADLOCK_WATCH_H_

#include <cstdint>

#include "absl/time/time.h"

namespace firn::cpu {

// How far the work of all streams is.
struct WorkProgress {
  uint64_t completed = 0;
  // Grows whenever an operation starts, parks, goes on or completes.
  uint64_t activity = 0;
  // All unfinished streams wait for something to happen elsewhere.
  bool all_parked = false;
};

// A deadlock is no activity for `parked_timeout` while all is parked, or
// nothing completed for `deadlock_timeout`.
class DeadlockWatch {
 public:
  DeadlockWatch(absl::Duration parked_timeout, absl::Duration deadlock_timeout,
                absl::Time now, const WorkProgress& progress)
      : parked_timeout_(parked_timeout),
        deadlock_timeout_(deadlock_timeout),
        completed_(progress.completed),
        activity_(progress.activity),
        completed_at_(now),
        active_at_(now) {}

  // How long to wait before asking again, unless there is activity; nothing if
  // this is a deadlock.
  absl::Duration Patience(absl::Time now, const WorkProgress& progress) {
    if (progress.completed != completed_) {
      completed_ = progress.completed;
      completed_at_ = now;
    }
    if (progress.activity != activity_) {
      activity_ = progress.activity;
      active_at_ = now;
    }
    absl::Time end = completed_at_ + deadlock_timeout_;
    if (progress.all_parked) {
      const absl::Time parked_end = active_at_ + parked_timeout_;
      if (parked_end < end) end = parked_end;
    }
    return end <= now ? absl::ZeroDuration() : end - now;
  }

 private:
  const absl::Duration parked_timeout_;
  const absl::Duration deadlock_timeout_;
  uint64_t completed_;
  uint64_t activity_;
  absl::Time completed_at_;
  absl::Time active_at_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_DEADLOCK_WATCH_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a wait for the work of streams is taken to be a deadlock.

#ifndef FIRN_VMM_CPU_DEADLOCK_WATCH_H_
#define FIRN_VMM_CPU_DEADLOCK_WATCH_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace firn::cpu {

// How far work is, as somebody sees it who waits for some of it.
struct WorkProgress {
  // Of the operations waited for.
  uint64_t completed = 0;
  // Grows whenever an operation starts, parks, goes on or completes, whether it
  // is waited for or not.
  uint64_t activity = 0;
  // All unfinished streams, waited for or not, wait for something to happen
  // elsewhere.
  bool all_parked = false;
};

// A deadlock is one of
// - no activity for `parked_timeout` while all is parked;
// - nothing that is waited for completed for `deadlock_timeout`.
// Work that is not waited for may still write the value that a stream waits
// for, so while there is some that is not parked the first rule does not hold.
// The second does, however much other work is done meanwhile.
//
// Time is what passes between calls, but never more than kLongestSlice at once:
// a process that is stopped for a while gave its work no time.
class DeadlockWatch {
 public:
  static constexpr absl::Duration kLongestSlice = absl::Milliseconds(100);

  DeadlockWatch(absl::Duration parked_timeout, absl::Duration deadlock_timeout,
                const WorkProgress& progress)
      : parked_timeout_(parked_timeout),
        deadlock_timeout_(deadlock_timeout),
        completed_(progress.completed),
        activity_(progress.activity) {}

  // How long to wait before asking again, unless there is activity; nothing if
  // this is a deadlock. `passed` since the last call.
  absl::Duration Patience(absl::Duration passed, const WorkProgress& progress) {
    passed = std::min(passed, kLongestSlice);
    since_completed_ += passed;
    if (progress.completed != completed_) {
      completed_ = progress.completed;
      since_completed_ = absl::ZeroDuration();
    }
    since_active_ += passed;
    if (progress.activity != activity_) {
      activity_ = progress.activity;
      since_active_ = absl::ZeroDuration();
    }
    absl::Duration left = deadlock_timeout_ - since_completed_;
    if (progress.all_parked) {
      left = std::min(left, parked_timeout_ - since_active_);
    }
    return std::max(absl::ZeroDuration(), std::min(left, kLongestSlice));
  }

 private:
  const absl::Duration parked_timeout_;
  const absl::Duration deadlock_timeout_;
  uint64_t completed_;
  uint64_t activity_;
  absl::Duration since_completed_;
  absl::Duration since_active_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_DEADLOCK_WATCH_H_

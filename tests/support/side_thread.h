// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread beside the test's own, for what may have to wait for the latter.

#ifndef FIRN_TESTS_SUPPORT_SIDE_THREAD_H_
#define FIRN_TESTS_SUPPORT_SIDE_THREAD_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/mutex.h"

namespace firn::testing {

class SideThread {
 public:
  explicit SideThread(std::function<void()> act)
      : thread_([this, act = std::move(act)] {
          act();
          MutexLock lock(&mutex_);
          done_ = true;
          changed_.SignalAll();
        }) {}
  ~SideThread() { thread_.join(); }
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // Whether it has done all it had to do, after so long at most.
  bool IsDoneWithin(absl::Duration timeout) {
    const absl::Time end = absl::Now() + timeout;
    MutexLock lock(&mutex_);
    while (!done_) {
      const absl::Duration left = end - absl::Now();
      if (left <= absl::ZeroDuration()) return false;
      changed_.WaitWithTimeout(&mutex_, left);
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the last one: it uses the others
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_SIDE_THREAD_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/contract/watchdog.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/time/clock.h"

namespace firn::contract {

Watchdog::Watchdog(std::string what, absl::Duration limit)
    : what_(std::move(what)),
      deadline_(absl::Now() + limit),
      thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    MutexLock lock(&mutex_);
    done_ = true;
    wake_.Signal();
  }
  thread_.join();
}

void Watchdog::Run() {
  MutexLock lock(&mutex_);
  while (!done_) {
    const absl::Duration left = deadline_ - absl::Now();
    if (left <= absl::ZeroDuration()) {
      std::printf("FAILED %s: it hangs\n", what_.c_str());
      std::fflush(stdout);
      std::abort();
    }
    (void)wake_.WaitWithTimeout(&mutex_, left);
  }
}

}  // namespace firn::contract

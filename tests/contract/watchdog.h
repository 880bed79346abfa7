// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Ends the program, saying which check it was, when one hangs.

#ifndef FIRN_TESTS_CONTRACT_WATCHDOG_H_
#define FIRN_TESTS_CONTRACT_WATCHDOG_H_

#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "firn/vmm/mutex.h"

namespace firn::contract {

class Watchdog {
 public:
  Watchdog(std::string what, absl::Duration limit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Run();

  const std::string what_;
  const absl::Time deadline_;
  Mutex mutex_;
  CondVar wake_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_WATCHDOG_H_

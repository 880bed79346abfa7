// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver that shows a test how many handles there are at most, and stops a
// thread inside a call until the test lets it go on.

#ifndef FIRN_TESTS_VMM_WATCHING_DRIVER_H_
#define FIRN_TESTS_VMM_WATCHING_DRIVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mutex.h"

namespace firn::testing {

// Counts the handles that there are, those included that are just being created
// or released, and holds up calls of one kind while a test wants it.
class WatchingDriver : public DriverWrapper {
 public:
  explicit WatchingDriver(Driver* base) : DriverWrapper(base) {}

  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override {
    const uint32_t handles = handles_.fetch_add(1) + 1;
    uint32_t most = most_handles_.load();
    while (most < handles &&
           !most_handles_.compare_exchange_weak(most, handles)) {
    }
    WaitIfHeld(DriverCall::kMemCreate);
    const DriverResult result =
        DriverWrapper::MemCreate(handle, bytes, prop, flags);
    if (result != DriverResult::kSuccess) handles_.fetch_sub(1);
    return result;
  }
  DriverResult MemRelease(PhysicalHandle handle) override {
    WaitIfHeld(DriverCall::kMemRelease);
    const DriverResult result = DriverWrapper::MemRelease(handle);
    if (result == DriverResult::kSuccess) handles_.fetch_sub(1);
    return result;
  }

  uint32_t handles() const { return handles_.load(); }
  uint32_t most_handles() const { return most_handles_.load(); }

  void Hold(DriverCall kind) {
    MutexLock lock(&mutex_);
    held_ = kind;
    holding_ = true;
  }
  // Returns once a call of that kind is being held up.
  void AwaitHeldCall() {
    MutexLock lock(&mutex_);
    while (waiting_ == 0) changed_.Wait(&mutex_);
  }
  void LetGo() {
    MutexLock lock(&mutex_);
    holding_ = false;
    changed_.SignalAll();
  }

 private:
  void WaitIfHeld(DriverCall kind) {
    MutexLock lock(&mutex_);
    while (holding_ && held_ == kind) {
      ++waiting_;
      changed_.SignalAll();
      changed_.Wait(&mutex_);
      --waiting_;
    }
  }

  std::atomic<uint32_t> handles_{0};
  std::atomic<uint32_t> most_handles_{0};
  Mutex mutex_;
  CondVar changed_;
  DriverCall held_ ABSL_GUARDED_BY(mutex_) = DriverCall::kMemCreate;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_WATCHING_DRIVER_H_

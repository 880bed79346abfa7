// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver that lets a test act between any two calls of an operation.

#ifndef FIRN_TESTS_SUPPORT_STEP_DRIVER_H_
#define FIRN_TESTS_SUPPORT_STEP_DRIVER_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mutex.h"

namespace firn::testing {

// Thread safety: as Driver; calls of other threads than the one that gave the
// order neither count nor act.
class StepDriver : public DriverWrapper {
 public:
  // Given the call that comes next.
  using Step = std::function<void(DriverCall)>;

  // Of the calls, those count for which `counts` is true. Does not own `base`.
  StepDriver(Driver* base, bool (*counts)(DriverCall))
      : DriverWrapper(base), counts_(counts) {}

  // Has `step` run before the n-th call from now on that counts and that this
  // thread makes (0 is the next); once. Takes the place of an earlier order.
  void Before(uint64_t n, Step step) {
    MutexLock lock(&mutex_);
    owner_ = std::this_thread::get_id();
    calls_left_ = n;
    step_ = std::move(step);
  }
  // Whether it has run, or is running.
  bool done() const {
    MutexLock lock(&mutex_);
    return step_ == nullptr;
  }
  void Cancel() {
    MutexLock lock(&mutex_);
    step_ = nullptr;
  }

 protected:
  DriverResult Around(const DriverCallArgs& args,
                      absl::FunctionRef<DriverResult()> call) override {
    if (counts_(args.call)) {
      const Step step = TakeIfDue();
      if (step != nullptr) step(args.call);
    }
    return call();
  }

 private:
  Step TakeIfDue() {
    MutexLock lock(&mutex_);
    if (step_ == nullptr || owner_ != std::this_thread::get_id() ||
        calls_left_-- > 0) {
      return nullptr;
    }
    return std::exchange(step_, nullptr);
  }

  bool (*const counts_)(DriverCall);
  mutable Mutex mutex_;
  std::thread::id owner_ ABSL_GUARDED_BY(mutex_);
  uint64_t calls_left_ ABSL_GUARDED_BY(mutex_) = 0;
  Step step_ ABSL_GUARDED_BY(mutex_);
};

// What a pass calls without the pool's lock while it copies what is idle.
inline bool IsCopyStep(DriverCall call) {
  return call == DriverCall::kMemcpyDtoDAsync ||
         call == DriverCall::kEventRecord ||
         call == DriverCall::kEventSynchronize;
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_STEP_DRIVER_H_

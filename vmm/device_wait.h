// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Waiting for everything that was queued on a device, with a bound: the driver
// knows no such wait with a timeout, so a thread of our own makes it.

#ifndef FIRN_VMM_DEVICE_WAIT_H_
#define FIRN_VMM_DEVICE_WAIT_H_

#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/mutex.h"

namespace firn {

// Synchronises the device's context on a thread that is started by the first
// request, in the relaxed capture mode. A capture that is open meanwhile in
// that context is invalidated by it, as by any such wait: the caller knows of
// none.
// Thread safety: all methods may be called from any thread.
class DeviceWait {
 public:
  // Does not own `driver`, which must outlive this object.
  explicit DeviceWait(Driver* driver);
  // Waits for the call that the thread is in.
  ~DeviceWait();
  DeviceWait(const DeviceWait&) = delete;
  DeviceWait& operator=(const DeviceWait&) = delete;

  // Asks for a wait that begins after this call, and returns its number: once
  // it is about to begin, or at once if an earlier one is still going on, for
  // it can begin only then. ResourceExhausted if the system starts no thread.
  absl::StatusOr<uint64_t> Request();
  // Nobody waits for it any more. True if it had not begun: it never will, and
  // neither do all others that have not.
  bool Withdraw(uint64_t request);
  // Waits until the wait of that number, or a later one, is over. OkStatus: all
  // work queued before the request is done. DeadlineExceeded; or what the
  // driver answered.
  absl::Status WaitFor(uint64_t request, absl::Time deadline);

 private:
  // What the thread does.
  void Run();

  Driver* const driver_;
  Mutex mutex_;
  CondVar asked_;  // there is a new request, or the end
  CondVar begun_;  // a wait begins
  CondVar over_;   // a wait is over
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // Requests are numbered from 1 on. A wait covers all that were made before it
  // began: of the last one that is over, and of the last that went well.
  uint64_t last_request_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t withdrawn_through_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t begun_through_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t over_through_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t done_through_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of the last wait that failed.
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  // Set once, by the first request.
  std::thread thread_;
};

}  // namespace firn

#endif  // FIRN_VMM_DEVICE_WAIT_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The thread's capture mode while firn makes calls of its own.

#ifndef FIRN_VMM_RELAXED_CAPTURE_H_
#define FIRN_VMM_RELAXED_CAPTURE_H_

#include "absl/status/status.h"
#include "firn/vmm/driver.h"

namespace firn {

// Gives the calling thread the mode kRelaxed, and at the end of the scope the
// one it had. Otherwise, while any other thread captures a stream in the mode
// kGlobal, "unsafe" calls of this thread fail and invalidate that capture.
// Nothing says that the calls which manage memory are safe, and of others (a
// new event, a query) some are not.
//
// A scope may be within another one. It must end on the thread it began on.
// What is forbidden in every mode stays so: nothing may be asked of a stream
// that is capturing, or of an event recorded in a capture.
class ScopedRelaxedCapture {
 public:
  // Does not own `driver`, which must outlive this object. The mode is the
  // thread's, whichever device the driver is of.
  explicit ScopedRelaxedCapture(Driver* driver)
      : driver_(driver),
        result_(driver->ThreadExchangeStreamCaptureMode(&mode_)) {}
  ~ScopedRelaxedCapture();
  ScopedRelaxedCapture(const ScopedRelaxedCapture&) = delete;
  ScopedRelaxedCapture& operator=(const ScopedRelaxedCapture&) = delete;

  // Anything but kSuccess: the thread's mode is the one it had.
  DriverResult result() const { return result_; }
  absl::Status status() const;

 private:
  Driver* const driver_;
  // What to give the thread next.
  CaptureMode mode_ = CaptureMode::kRelaxed;
  const DriverResult result_;
};

}  // namespace firn

#endif  // FIRN_VMM_RELAXED_CAPTURE_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver that keeps the last calls made through it, for reports of what led
// to a failure, and hands each to a log as it returns.

#ifndef FIRN_VMM_LOGGING_DRIVER_H_
#define FIRN_VMM_LOGGING_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mutex.h"

namespace firn {

struct DriverCallRecord {
  uint64_t sequence = 0;  // from 0, in the order in which calls were made
  uint64_t thread = 0;    // ThisThreadOrdinal
  DriverCallArgs args;
  bool has_returned = false;
  DriverResult result = DriverResult::kSuccess;  // if it has
};

// "17 t1 cuMemMap(address=0x7f0000000000, ...) = CUDA_SUCCESS", without an end
// of line. A call that has not returned ends in "= ?".
std::string FormatDriverCallRecord(const DriverCallRecord& record);

// Thread safety: as Driver.
class LoggingDriver : public DriverWrapper {
 public:
  using Sink = std::function<void(absl::string_view line)>;
  static constexpr size_t kDefaultKeptCalls = 1024;

  // Keeps the last `kept_calls` calls. `sink`, unless empty, gets the line of
  // each call once it has returned, in the thread that made it: it is called by
  // several threads at a time, and must make no call through this object. Does
  // not own `base`.
  explicit LoggingDriver(Driver* base, size_t kept_calls = kDefaultKeptCalls,
                         Sink sink = nullptr);

  // What is kept, oldest first; those that are still being made among them.
  std::vector<DriverCallRecord> Records() const;
  // The same, one line each.
  std::string Format() const;

 protected:
  DriverResult Around(const DriverCallArgs& args,
                      absl::FunctionRef<DriverResult()> call) override;

 private:
  // Of the call with this sequence number, kept or not.
  size_t SlotOf(uint64_t sequence) const {
    return static_cast<size_t>(sequence % kept_calls_);
  }
  void Begin(DriverCallRecord* record);
  void End(const DriverCallRecord& record);

  const size_t kept_calls_;
  const Sink sink_;
  mutable Mutex mutex_;
  // A ring, once it is full.
  std::vector<DriverCallRecord> records_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_LOGGING_DRIVER_H_

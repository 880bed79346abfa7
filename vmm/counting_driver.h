// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver that counts the calls made through it and charges each to a cost
// model's virtual clock.

#ifndef FIRN_VMM_COUNTING_DRIVER_H_
#define FIRN_VMM_COUNTING_DRIVER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "firn/vmm/cost_model.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_clock.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mutex.h"

namespace firn {

// Calls that succeeded, of the kinds that cost.
struct DriverCalls {
  uint64_t create = 0;
  uint64_t map = 0;
  uint64_t unmap = 0;
  uint64_t set_access = 0;
  uint64_t release = 0;
  uint64_t reserve = 0;
  uint64_t copy = 0;  // from device memory to device memory
};

// A call that fails costs nothing. MemAlloc and MemFree, of which there are no
// figures of their own, are charged as the calls that they stand for, of one
// handle. Thread safety: as Driver.
class CountingDriver : public DriverWrapper {
 public:
  // `granule_bytes` tells how many handles a ranged call covers. `clock` is
  // charged with the calls that manage memory: that of all drivers in front of
  // one device, or nullptr for one of this driver's own. Copies are work of the
  // device and take no time there. Owns neither `base` nor `clock`.
  CountingDriver(Driver* base, CostModel model, uint64_t granule_bytes,
                 DriverClock* clock = nullptr);

  // Calls that succeeded, and calls that did not (a query that says
  // kNotReady, too).
  uint64_t count(DriverCall call) const;
  uint64_t failed(DriverCall call) const;
  DriverCalls calls() const;

  // Modelled time of the memory-management calls so far, in microseconds; the
  // part of it spent in MemCreate; and the modelled time of copies.
  double driver_us() const;
  double create_us() const;
  double copy_us() const;
  // When those calls took place, and how long threads waited for each other.
  DriverClock& clock() { return *clock_; }

 protected:
  DriverResult Around(const DriverCallArgs& args,
                      absl::FunctionRef<DriverResult()> call) override;

 private:
  using Counts = std::array<uint64_t, static_cast<size_t>(kDriverCallCount)>;

  void Charge(const DriverCallArgs& args) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t granule_bytes_;
  DriverClock own_clock_;
  DriverClock* const clock_;
  mutable Mutex mutex_;
  CostModel model_ ABSL_GUARDED_BY(mutex_);
  Counts succeeded_ ABSL_GUARDED_BY(mutex_) = {};
  Counts failed_ ABSL_GUARDED_BY(mutex_) = {};
  double driver_us_ ABSL_GUARDED_BY(mutex_) = 0;
  double create_us_ ABSL_GUARDED_BY(mutex_) = 0;
  double copy_us_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_COUNTING_DRIVER_H_

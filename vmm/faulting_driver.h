// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver whose calls fail on demand, for tests of what happens when they do.

#ifndef FIRN_VMM_FAULTING_DRIVER_H_
#define FIRN_VMM_FAULTING_DRIVER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/uniform_draws.h"

namespace firn {

// Every call that can fail is counted, and either passed on or failed: a
// failed call returns the chosen result and does not reach the base driver, so
// it has no effect. Where several orders ask for the same call to fail, the
// oldest one decides. Thread safety: as Driver.
class FaultingDriver : public DriverWrapper {
 public:
  // Does not own `base`.
  explicit FaultingDriver(Driver* base) : DriverWrapper(base) {}

  // The `n`-th call from now on fails (0 is the next); later ones pass.
  void FailNth(uint64_t n, DriverResult result);
  // The `n`-th call from now on and all after it fail: with a sticky result, a
  // device that is lost for good.
  void FailFrom(uint64_t n, DriverResult result);
  // Of the calls of this kind, the `n`-th from now on fails.
  void FailNthOf(DriverCall kind, uint64_t n, DriverResult result);
  // From now on each call, or each call of this kind, fails with this
  // probability; which ones, `seed` decides.
  void FailRandomly(double probability, uint64_t seed, DriverResult result);
  void FailRandomlyOf(DriverCall kind, double probability, uint64_t seed,
                      DriverResult result);
  // Forgets all orders and counts from 0.
  void Reset();

  // Calls seen since Reset, and how many of them were made to fail.
  uint64_t calls() const;
  uint64_t failures() const;

 protected:
  DriverResult Around(const DriverCallArgs& args,
                      absl::FunctionRef<DriverResult()> call) override;

 private:
  // An order to fail calls, given by FailNth and its like.
  struct Fault {
    std::optional<DriverCall> kind;  // or all calls
    uint64_t calls_before = 0;       // that still pass
    bool lasting = false;            // not used up by one failure
    double probability = 1;
    UniformDraws draws{0};
    DriverResult result = DriverResult::kSuccess;
  };

  // Whether `fault` asks for this call to fail, and counts the call.
  static bool Strikes(Fault* fault, DriverCall kind);

  // Counts one call; kSuccess lets it pass.
  DriverResult Admit(DriverCall kind);
  void Add(const Fault& fault);

  mutable Mutex mutex_;
  std::vector<Fault> faults_ ABSL_GUARDED_BY(mutex_);
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_FAULTING_DRIVER_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that is made, mapped and given back to see whether a driver permits
// it.

#ifndef FIRN_VMM_MEMORY_TRIAL_H_
#define FIRN_VMM_MEMORY_TRIAL_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"

namespace firn {

// "cuMemCreate: CUDA_ERROR_NOT_PERMITTED (800)", and ": <detail>" where given.
std::string RefusalOf(DriverCall call, DriverResult result,
                      absl::string_view detail = "");

// One handle of the minimum granularity. Each step is tried once and says
// whether it worked; the first one that did not is the refusal.
// Thread safety: none.
class MemoryTrial {
 public:
  // Does not own `driver`, which must outlive this object.
  MemoryTrial(Driver* driver, const AllocationProp& prop)
      : driver_(driver), prop_(prop) {}
  // Gives back what is left, unless that was refused before.
  ~MemoryTrial() { GiveBack(); }
  MemoryTrial(const MemoryTrial&) = delete;
  MemoryTrial& operator=(const MemoryTrial&) = delete;

  bool Reserve();
  bool Create();
  // Maps the one at the other, makes it accessible to the driver's device, and
  // asks whether it is.
  bool MapWithAccess();
  // Unmaps, releases and frees, whatever there is. What is refused is tried a
  // few times, so that nothing is left, but counts as refused.
  bool GiveBack();
  // Gives nothing back: work that cannot be waited for may still reach it.
  void LeaveBehind();

  DevicePtr address() const { return address_; }
  // Empty if every step worked.
  const std::string& refusal() const { return refusal_; }
  // The result of the call that was refused. kSuccess if none was, or if the
  // access that was set is not there.
  DriverResult refused_with() const { return refused_with_; }

 private:
  bool Note(DriverCall call, DriverResult result,
            absl::string_view detail = "");
  bool FindGranularity();
  bool End(DriverCall call, absl::FunctionRef<DriverResult()> make,
           bool* present);

  Driver* const driver_;
  const AllocationProp prop_;
  size_t granule_bytes_ = 0;
  DevicePtr address_ = 0;
  PhysicalHandle handle_ = 0;
  bool reserved_ = false;
  bool created_ = false;
  bool mapped_ = false;
  std::string refusal_;
  DriverResult refused_with_ = DriverResult::kSuccess;
};

}  // namespace firn

#endif  // FIRN_VMM_MEMORY_TRIAL_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver that counts the calls made through it and charges each to a cost
// model's virtual clock.

#ifndef FIRN_VMM_COUNTING_DRIVER_H_
#define FIRN_VMM_COUNTING_DRIVER_H_

#include <cstdint>

#include "firn/vmm/cost_model.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/mutex.h"

namespace firn {

// Calls that succeeded, by name.
struct DriverCalls {
  uint64_t create = 0;
  uint64_t map = 0;
  uint64_t unmap = 0;
  uint64_t set_access = 0;
  uint64_t release = 0;
  uint64_t reserve = 0;
  uint64_t copy = 0;
};

// Thread safety: as Driver.
class CountingDriver : public DriverWrapper {
 public:
  // `granule_bytes` tells how many handles a ranged call covers. Does not own
  // `base`.
  CountingDriver(Driver* base, CostModel model, uint64_t granule_bytes);

  DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) override;
  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override;
  DriverResult MemRelease(PhysicalHandle handle) override;
  DriverResult MemMap(DevicePtr address, size_t bytes, size_t offset_bytes,
                      PhysicalHandle handle, uint64_t flags) override;
  DriverResult MemUnmap(DevicePtr address, size_t bytes) override;
  DriverResult MemSetAccess(DevicePtr address, size_t bytes,
                            const AccessDesc* descs, size_t count) override;
  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override;

  DriverCalls calls() const;
  // Modelled time of the memory-management calls so far, in microseconds; the
  // part of it spent in MemCreate; and the modelled time of copies.
  double driver_us() const;
  double create_us() const;
  double copy_us() const;

 private:
  const uint64_t granule_bytes_;
  mutable Mutex mutex_;
  CostModel model_ ABSL_GUARDED_BY(mutex_);
  DriverCalls calls_ ABSL_GUARDED_BY(mutex_);
  double driver_us_ ABSL_GUARDED_BY(mutex_) = 0;
  double create_us_ ABSL_GUARDED_BY(mutex_) = 0;
  double copy_us_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_COUNTING_DRIVER_H_

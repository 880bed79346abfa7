// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tells device addresses from host addresses, for copies that are given either.
// Private to vmm/cpu/libcuda.

#ifndef FIRN_VMM_CPU_LIBCUDA_RESERVATION_INDEX_H_
#define FIRN_VMM_CPU_LIBCUDA_RESERVATION_INDEX_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/mutex.h"

namespace firn::libcuda {

// The reservations that a process holds. Kept beside the driver, whose own
// queries take an address that is not reserved for misuse.
// Thread safety: all methods may be called from any thread.
class ReservationIndex {
 public:
  void Insert(DevicePtr address, uint64_t bytes) {
    MutexLock lock(&mutex_);
    ends_[address] = address + bytes;
  }
  // What is known to start at `address`, in bytes: 0 if nothing is.
  uint64_t Take(DevicePtr address) {
    MutexLock lock(&mutex_);
    const auto found = ends_.find(address);
    if (found == ends_.end()) return 0;
    const uint64_t bytes = found->second - address;
    ends_.erase(found);
    return bytes;
  }
  bool Contains(DevicePtr address) {
    MutexLock lock(&mutex_);
    auto after = ends_.upper_bound(address);
    return after != ends_.begin() && address < (--after)->second;
  }

 private:
  Mutex mutex_;
  // By start.
  absl::btree_map<DevicePtr, DevicePtr> ends_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::libcuda

#endif  // FIRN_VMM_CPU_LIBCUDA_RESERVATION_INDEX_H_

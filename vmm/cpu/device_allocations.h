// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that is allocated by one call and freed by its address alone: MemAlloc
// and MemFree, made of the calls on virtual memory. Private to vmm/cpu.

#ifndef FIRN_VMM_CPU_DEVICE_ALLOCATIONS_H_
#define FIRN_VMM_CPU_DEVICE_ALLOCATIONS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "firn/vmm/cpu/device_memory.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu {

// An allocation is a reservation of its own, with one handle mapped in it,
// whose device alone has access. Every call does all or nothing.
// Thread safety: all methods may be called from any thread. The lock of the
// memory comes after this one's.
class DeviceAllocations {
 public:
  // Does not own `memory`, which must outlive this object.
  explicit DeviceAllocations(DeviceMemory* memory) : memory_(memory) {}
  DeviceAllocations(const DeviceAllocations&) = delete;
  DeviceAllocations& operator=(const DeviceAllocations&) = delete;

  // `bytes` are rounded up to whole granules.
  Verdict Allocate(int device, size_t bytes, DevicePtr* address);
  // The device whose memory was allocated at just this address.
  Verdict FindDevice(DevicePtr address, int* device);
  // The caller has waited for work that uses it.
  Verdict Free(DevicePtr address);

  // Refuses what is inside an allocation: the calls on virtual memory must not
  // take it apart.
  Verdict RefuseAllocated(DevicePtr address) {
    // On the path of every remap: most often there are no allocations.
    if (count_.load(std::memory_order_relaxed) == 0) return Allow();
    return RefuseIfAllocated(address);
  }

 private:
  struct Allocation {
    uint64_t bytes = 0;  // whole granules
    int device = 0;
  };

  Verdict Make(int device, uint64_t bytes, const AllocationProp& prop,
               DevicePtr* address);
  Verdict RefuseIfAllocated(DevicePtr address);
  void Insert(DevicePtr address, const Allocation& allocation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DeviceMemory* const memory_;
  // How many there are. Written under the mutex, read without: who frees and
  // who unmaps the same memory at the same time may see either.
  std::atomic<uint64_t> count_{0};
  Mutex mutex_;
  // By address.
  absl::btree_map<DevicePtr, Allocation> allocations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_DEVICE_ALLOCATIONS_H_

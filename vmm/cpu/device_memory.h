// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of one device: the calls of vmm/driver.h on memory, with all
// their rules, over the books (AddressMap, HandleTable) and a Storage.

#ifndef FIRN_VMM_CPU_DEVICE_MEMORY_H_
#define FIRN_VMM_CPU_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "firn/vmm/cpu/address_map.h"
#include "firn/vmm/cpu/handle_table.h"
#include "firn/vmm/cpu/storage.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu {

// Every call does all or nothing. Thread safety: all methods may be called from
// any thread; they are serialised by one mutex.
class DeviceMemory {
 public:
  DeviceMemory(uint64_t granularity_bytes, uint64_t device_granules,
               std::unique_ptr<Storage> storage);

  DriverResult GetGranularity(size_t* granularity_bytes,
                              const AllocationProp* prop,
                              GranularityKind kind) const;
  DriverResult Reserve(DevicePtr* address, size_t bytes, size_t alignment_bytes,
                       DevicePtr hint, uint64_t flags);
  DriverResult Unreserve(DevicePtr address, size_t bytes);
  DriverResult Create(PhysicalHandle* handle, size_t bytes,
                      const AllocationProp* prop, uint64_t flags);
  DriverResult Release(PhysicalHandle handle);
  DriverResult Map(DevicePtr address, size_t bytes, size_t offset_bytes,
                   PhysicalHandle handle, uint64_t flags);
  DriverResult Unmap(DevicePtr address, size_t bytes);
  DriverResult SetAccess(DevicePtr address, size_t bytes,
                         const AccessDesc* descs, size_t count);
  DriverResult GetAccess(AccessFlags* flags, const MemLocation* location,
                         DevicePtr address);
  DriverResult Retain(PhysicalHandle* handle, DevicePtr address);
  DriverResult GetInfo(size_t* free_bytes, size_t* total_bytes);

  // Whether the device may access every byte so at this moment.
  bool Permits(DevicePtr address, uint64_t bytes, AccessFlags access);

 private:
  // Where in the storage the granule that `slot` shows is.
  uint64_t StorageGranule(Slot slot) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The longest run of `range` that begins at granule `first`.
  AccessRun RunAt(const SlotRange& range, uint64_t first) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives [range.first, end) the access that the books say it has.
  void RestoreAccess(const SlotRange& range, uint64_t end, AccessFlags now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveAccess(const SlotRange& range)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeAllocation(uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t granularity_bytes_;
  const uint64_t device_granules_;
  Mutex mutex_;
  const std::unique_ptr<Storage> storage_ ABSL_PT_GUARDED_BY(mutex_);
  AddressMap addresses_ ABSL_GUARDED_BY(mutex_);
  HandleTable handles_ ABSL_GUARDED_BY(mutex_);
  uint64_t used_granules_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_DEVICE_MEMORY_H_

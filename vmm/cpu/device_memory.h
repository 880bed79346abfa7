// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of a driver's devices: the calls of vmm/driver.h on memory, with
// all their rules, over the books (AddressMap, HandleTable, MemoryTable) and a
// Storage.

#ifndef FIRN_VMM_CPU_DEVICE_MEMORY_H_
#define FIRN_VMM_CPU_DEVICE_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "firn/vmm/cpu/access_range.h"
#include "firn/vmm/cpu/access_set.h"
#include "firn/vmm/cpu/address_map.h"
#include "firn/vmm/cpu/cpu_defect.h"
#include "firn/vmm/cpu/handle_table.h"
#include "firn/vmm/cpu/memory_table.h"
#include "firn/vmm/cpu/storage.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu {

struct MemoryOptions {
  uint64_t granularity_bytes = 0;
  // What each device has.
  uint64_t device_granules = 0;
  int device_count = 1;
  bool peer_access = true;
  uint64_t max_handles = 0;
  // Of mappings that somebody may access.
  uint64_t max_mappings = 0;
  CpuDefect defect = CpuDefect::kNone;
};

// Every call does all or nothing. Thread safety: all methods may be called from
// any thread; they are serialised by one mutex.
class DeviceMemory {
 public:
  DeviceMemory(const MemoryOptions& options, std::unique_ptr<Storage> storage);

  Verdict GetGranularity(size_t* granularity_bytes, const AllocationProp* prop,
                         GranularityKind kind) const;
  Verdict Reserve(DevicePtr* address, size_t bytes, size_t alignment_bytes,
                  DevicePtr hint, uint64_t flags);
  Verdict Unreserve(DevicePtr address, size_t bytes);
  Verdict Create(PhysicalHandle* handle, size_t bytes,
                 const AllocationProp* prop, uint64_t flags);
  Verdict Release(PhysicalHandle handle);
  Verdict Map(DevicePtr address, size_t bytes, size_t offset_bytes,
              PhysicalHandle handle, uint64_t flags);
  Verdict Unmap(DevicePtr address, size_t bytes);
  Verdict SetAccess(DevicePtr address, size_t bytes, const AccessDesc* descs,
                    size_t count);
  Verdict GetAccess(AccessFlags* flags, const MemLocation* location,
                    DevicePtr address);
  Verdict Retain(PhysicalHandle* handle, DevicePtr address);
  Verdict GetProperties(AllocationProp* prop, PhysicalHandle handle);
  Verdict Export(void* shareable, PhysicalHandle handle,
                 ShareableHandleType type, uint64_t flags);
  Verdict Import(PhysicalHandle* handle, void* shareable,
                 ShareableHandleType type);
  // Either result may be left out.
  Verdict GetAddressRange(DevicePtr* base, size_t* bytes, DevicePtr address);
  Verdict GetPointerAttribute(int device, void* data,
                              PointerAttribute attribute, DevicePtr address);
  Verdict GetInfo(int device, size_t* free_bytes, size_t* total_bytes);

  // Counts unmaps. Work notes it when queued.
  uint64_t unmap_epoch() const {
    return unmap_epoch_.load(std::memory_order_relaxed);
  }
  // Whether `device` may access every byte of each range so at this moment, and
  // nothing in them was unmapped after `since_epoch`. What was reserved and
  // mapped since is fine where nothing else was unmapped since: work may be
  // queued before the memory that it finds when it runs. Appends to `physical`,
  // unless it is null, where the bytes lie.
  Verdict CheckAccess(int device, absl::Span<const AccessRange> ranges,
                      uint64_t since_epoch,
                      std::vector<PhysicalRange>* physical);

  // Memory that went since the last call, by id: for who keeps books by memory.
  std::vector<uint64_t> TakeFreedMemory();
  // Whether there is any.
  bool has_freed_memory() const {
    return has_freed_memory_.load(std::memory_order_relaxed);
  }

  // Handles that a user or a mapping refers to, and mappings.
  uint64_t live_handles();
  uint64_t live_mappings();

 private:
  static constexpr const char* kHandleRule =
      "the handle must be one that was made and not yet released";
  static constexpr const char* kMappedRule =
      "something must be mapped at the address";

  bool has(CpuDefect defect) const { return options_.defect == defect; }

  // Unmaps whole mappings: all of them or none.
  Verdict UnmapRange(const SlotRange& range)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unmaps all that is mapped in the range, or the first part of it. Cuts
  // mappings at its borders in two: only drivers with a defect do that.
  Verdict UnmapAllIn(const SlotRange& range)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SplitAt(ReservedRange* reservation, uint64_t granule)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Whether every mapping in the range may be accessed by what `change` names.
  Verdict CheckOwners(const SlotRange& range, const AccessChange& change) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Verdict ChangeAccess(const SlotRange& range, const AccessChange& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The longest run of `range` that begins at granule `first`, for `change`.
  AccessRun RunAt(const SlotRange& range, uint64_t first,
                  const AccessChange& change) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives [range.first, end), which got `change`, the access that the books say
  // it has.
  void RestoreAccess(const SlotRange& range, uint64_t end,
                     const AccessChange& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Verdict RemoveAccess(const SlotRange& range)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Verdict CheckRange(int device, const AccessRange& range, uint64_t since_epoch,
                     std::vector<PhysicalRange>* physical)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Appends [address, end), which is in one granule, that `slot` shows.
  void AppendPhysical(const Slot& slot, DevicePtr address, DevicePtr end,
                      bool writes, std::vector<PhysicalRange>* physical) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The mapping that `address` is in.
  Verdict FindMapping(DevicePtr address, SlotRange* mapping)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Verdict GetMappingAttribute(int device, void* data,
                              PointerAttribute attribute, DevicePtr address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  PhysicalHandle AddHandle(uint32_t memory_index, bool imported)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AtHandleLimit() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The handle is about to lose its last user reference.
  void ForgetName(uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It has lost its last reference of any kind.
  void DropHandle(uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteFreedMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Memory& MemoryOf(const Slot& slot) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // In the order in which a remap reads them: a system call leaves little in
  // the caches, and every line counts.
  Mutex mutex_;
  // Written under the mutex, read without.
  std::atomic<uint64_t> unmap_epoch_{0};
  std::atomic<bool> has_freed_memory_{false};
  const std::unique_ptr<Storage> storage_ ABSL_PT_GUARDED_BY(mutex_);
  AddressMap addresses_ ABSL_GUARDED_BY(mutex_);
  HandleTable handles_ ABSL_GUARDED_BY(mutex_);
  uint64_t mappings_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t accessible_mappings_ ABSL_GUARDED_BY(mutex_) = 0;
  const MemoryOptions options_;
  const uint64_t granularity_bytes_;
  MemoryTable memories_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_DEVICE_MEMORY_H_

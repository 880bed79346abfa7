// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/device_memory.h"

#include <algorithm>
#include <utility>

#include "firn/vmm/cpu/argument_rules.h"
#include "firn/vmm/cpu/host_memory.h"

namespace firn::cpu {

DeviceMemory::DeviceMemory(uint64_t granularity_bytes, uint64_t device_granules,
                           std::unique_ptr<Storage> storage)
    : granularity_bytes_(granularity_bytes),
      device_granules_(device_granules),
      storage_(std::move(storage)),
      addresses_(granularity_bytes) {}

DriverResult DeviceMemory::GetGranularity(size_t* granularity_bytes,
                                          const AllocationProp* prop,
                                          GranularityKind kind) const {
  // NVIDIA's driver looks at nothing in the properties, and crashes when there
  // are none.
  if (granularity_bytes == nullptr || prop == nullptr ||
      (kind != GranularityKind::kMinimum &&
       kind != GranularityKind::kRecommended)) {
    return DriverResult::kInvalidValue;
  }
  *granularity_bytes = granularity_bytes_;
  return DriverResult::kSuccess;
}

DriverResult DeviceMemory::Reserve(DevicePtr* address, size_t bytes,
                                   size_t alignment_bytes, DevicePtr hint,
                                   uint64_t flags) {
  if (address == nullptr) return DriverResult::kInvalidValue;
  const DriverResult checked =
      CheckReserve(bytes, alignment_bytes, hint, flags, HostPageBytes());
  if (checked != DriverResult::kSuccess) return checked;
  MutexLock lock(&mutex_);
  const uint64_t aligned_to =
      std::max<uint64_t>(alignment_bytes, granularity_bytes_);
  DevicePtr reserved = 0;
  const DriverResult result =
      storage_->Reserve(bytes, aligned_to, hint, &reserved);
  if (result != DriverResult::kSuccess) return result;
  addresses_.AddReservation(reserved, bytes);
  *address = reserved;
  return DriverResult::kSuccess;
}

DriverResult DeviceMemory::Unreserve(DevicePtr address, size_t bytes) {
  MutexLock lock(&mutex_);
  const DriverResult result = addresses_.RemoveReservation(address, bytes);
  if (result == DriverResult::kSuccess) storage_->Unreserve(address, bytes);
  return result;
}

DriverResult DeviceMemory::Create(PhysicalHandle* handle, size_t bytes,
                                  const AllocationProp* prop, uint64_t flags) {
  if (handle == nullptr || prop == nullptr || flags != 0 || bytes == 0 ||
      bytes % granularity_bytes_ != 0) {
    return DriverResult::kInvalidValue;
  }
  const DriverResult checked = CheckAllocationProp(*prop);
  if (checked != DriverResult::kSuccess) return checked;
  const uint64_t granules = bytes / granularity_bytes_;
  MutexLock lock(&mutex_);
  if (granules > device_granules_ - used_granules_ ||
      granules > Slot::kMaxGranulesPerAllocation) {
    return DriverResult::kOutOfMemory;
  }
  uint64_t first_granule = 0;
  const DriverResult result = storage_->Allocate(granules, &first_granule);
  if (result != DriverResult::kSuccess) return result;
  used_granules_ += granules;
  *handle = handles_.Add(static_cast<uint32_t>(granules), first_granule);
  return DriverResult::kSuccess;
}

DriverResult DeviceMemory::Release(PhysicalHandle handle) {
  MutexLock lock(&mutex_);
  uint32_t index = 0;
  if (!handles_.Find(handle, &index)) return DriverResult::kInvalidValue;
  if (handles_.DropUser(index)) FreeAllocation(index);
  return DriverResult::kSuccess;
}

DriverResult DeviceMemory::Map(DevicePtr address, size_t bytes,
                               size_t offset_bytes, PhysicalHandle handle,
                               uint64_t flags) {
  if (offset_bytes != 0 || flags != 0) return DriverResult::kInvalidValue;
  MutexLock lock(&mutex_);
  uint32_t index = 0;
  if (!handles_.Find(handle, &index)) return DriverResult::kInvalidValue;
  SlotRange range;
  const DriverResult result = addresses_.FindUnmapped(address, bytes, &range);
  if (result != DriverResult::kSuccess) return result;
  // An allocation is mapped whole.
  if (range.count != handles_.allocation(index).granules) {
    return DriverResult::kInvalidValue;
  }
  addresses_.Map(range, index);
  handles_.AddMapping(index);
  return DriverResult::kSuccess;
}

DriverResult DeviceMemory::Unmap(DevicePtr address, size_t bytes) {
  MutexLock lock(&mutex_);
  SlotRange range;
  const DriverResult result = addresses_.FindMappings(address, bytes, &range);
  if (result != DriverResult::kSuccess) return result;
  RemoveAccess(range);
  for (uint64_t i = range.first; i < range.end(); ++i) {
    const Slot slot = range.Get(i);
    if (slot.continues()) continue;
    const uint32_t index = slot.allocation_index();
    if (handles_.DropMapping(index)) FreeAllocation(index);
  }
  addresses_.Unmap(range);
  return DriverResult::kSuccess;
}

DriverResult DeviceMemory::SetAccess(DevicePtr address, size_t bytes,
                                     const AccessDesc* descs, size_t count) {
  AccessFlags access = AccessFlags::kNone;
  const DriverResult checked = CheckAccessDescs(descs, count, &access);
  if (checked != DriverResult::kSuccess) return checked;
  MutexLock lock(&mutex_);
  SlotRange range;
  const DriverResult found = addresses_.FindMappings(address, bytes, &range);
  if (found != DriverResult::kSuccess) return found;
  for (uint64_t first = range.first; first < range.end();) {
    const AccessRun run = RunAt(range, first);
    const DriverResult result = storage_->SetAccess(run, access);
    if (result != DriverResult::kSuccess) {
      RestoreAccess(range, first, access);
      return result;
    }
    first += run.granules;
  }
  addresses_.SetAccess(range, access);
  return DriverResult::kSuccess;
}

DriverResult DeviceMemory::GetAccess(AccessFlags* flags,
                                     const MemLocation* location,
                                     DevicePtr address) {
  if (flags == nullptr || location == nullptr || !IsTheDevice(*location)) {
    return DriverResult::kInvalidValue;
  }
  MutexLock lock(&mutex_);
  const Slot slot = addresses_.Find(address);
  if (!slot.mapped()) return DriverResult::kInvalidValue;
  *flags = slot.access();
  return DriverResult::kSuccess;
}

DriverResult DeviceMemory::Retain(PhysicalHandle* handle, DevicePtr address) {
  if (handle == nullptr) return DriverResult::kInvalidValue;
  MutexLock lock(&mutex_);
  const Slot slot = addresses_.Find(address);
  if (!slot.mapped()) return DriverResult::kInvalidValue;
  handles_.AddUser(slot.allocation_index());
  *handle = handles_.HandleOf(slot.allocation_index());
  return DriverResult::kSuccess;
}

DriverResult DeviceMemory::GetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) {
    return DriverResult::kInvalidValue;
  }
  MutexLock lock(&mutex_);
  *free_bytes = (device_granules_ - used_granules_) * granularity_bytes_;
  *total_bytes = device_granules_ * granularity_bytes_;
  return DriverResult::kSuccess;
}

bool DeviceMemory::Permits(DevicePtr address, uint64_t bytes,
                           AccessFlags access) {
  MutexLock lock(&mutex_);
  return addresses_.Permits(address, bytes, access);
}

uint64_t DeviceMemory::StorageGranule(Slot slot) const {
  return handles_.allocation(slot.allocation_index()).first_granule +
         slot.position();
}

AccessRun DeviceMemory::RunAt(const SlotRange& range, uint64_t first) const {
  const Slot head = range.Get(first);
  AccessRun run;
  run.address = addresses_.AddressOf(range, first);
  run.first_granule = StorageGranule(head);
  run.access = head.access();
  for (uint64_t i = first; i < range.end(); ++i) {
    const Slot slot = range.Get(i);
    if (slot.access() != run.access ||
        StorageGranule(slot) != run.first_granule + run.granules) {
      break;
    }
    ++run.granules;
    if (!slot.continues()) ++run.mappings;
  }
  return run;
}

void DeviceMemory::RestoreAccess(const SlotRange& range, uint64_t end,
                                 AccessFlags now) {
  const SlotRange changed{range.reservation, range.first, end - range.first};
  for (uint64_t first = changed.first; first < changed.end();) {
    AccessRun run = RunAt(changed, first);
    const AccessFlags before = std::exchange(run.access, now);
    storage_->SetAccess(run, before);
    first += run.granules;
  }
}

void DeviceMemory::RemoveAccess(const SlotRange& range) {
  // Where the granules lie does not matter here, so runs can be longer.
  for (uint64_t first = range.first; first < range.end();) {
    uint64_t end = first;
    uint64_t mappings = 0;
    while (end < range.end() && range.Get(end).access() != AccessFlags::kNone) {
      if (!range.Get(end).continues()) ++mappings;
      ++end;
    }
    if (end > first) {
      storage_->RemoveAccess(addresses_.AddressOf(range, first), end - first,
                             mappings);
    }
    first = end + 1;
  }
}

void DeviceMemory::FreeAllocation(uint32_t index) {
  const Allocation& allocation = handles_.allocation(index);
  storage_->Free(allocation.first_granule, allocation.granules);
  used_granules_ -= allocation.granules;
  handles_.Erase(index);
}

}  // namespace firn::cpu

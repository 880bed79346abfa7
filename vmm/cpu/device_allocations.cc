// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/device_allocations.h"

#include <limits>

#include "firn/vmm/allocation_props.h"

namespace firn::cpu {
namespace {

constexpr const char* kAllocatedRule =
    "the address must be one that was allocated and not yet freed";

}  // namespace

Verdict DeviceAllocations::Make(int device, uint64_t bytes,
                                const AllocationProp& prop,
                                DevicePtr* address) {
  Verdict verdict = memory_->Reserve(address, bytes, /*alignment_bytes=*/0,
                                     /*hint=*/0, /*flags=*/0);
  if (!verdict.ok()) return verdict;
  PhysicalHandle handle = 0;
  verdict = memory_->Create(&handle, bytes, &prop, /*flags=*/0);
  if (verdict.ok()) {
    verdict = memory_->Map(*address, bytes, /*offset_bytes=*/0, handle,
                           /*flags=*/0);
    if (verdict.ok()) {
      AccessDesc desc;
      desc.location = {LocationType::kDevice, device};
      desc.flags = AccessFlags::kReadWrite;
      verdict = memory_->SetAccess(*address, bytes, &desc, 1);
      // What has no access is unmapped without a system call.
      if (!verdict.ok()) static_cast<void>(memory_->Unmap(*address, bytes));
    }
    // The mapping, if there is one, keeps the memory.
    static_cast<void>(memory_->Release(handle));
  }
  if (!verdict.ok()) static_cast<void>(memory_->Unreserve(*address, bytes));
  return verdict;
}

Verdict DeviceAllocations::Allocate(int device, size_t bytes,
                                    DevicePtr* address) {
  if (address == nullptr) {
    return RefuseValue("there must be a place for the address");
  }
  if (bytes == 0) return RefuseValue("the byte count must not be 0");
  const AllocationProp prop = MovableProp(device);
  size_t granularity_bytes = 0;
  const Verdict known = memory_->GetGranularity(&granularity_bytes, &prop,
                                                GranularityKind::kMinimum);
  if (!known.ok()) return known;
  if (bytes > std::numeric_limits<size_t>::max() - (granularity_bytes - 1)) {
    return Refuse(DriverResult::kOutOfMemory,
                  "the byte count must leave room to round it up");
  }
  Allocation allocation;
  allocation.bytes = (bytes + granularity_bytes - 1) & ~(granularity_bytes - 1);
  allocation.device = device;
  DevicePtr allocated = 0;
  const Verdict made = Make(device, allocation.bytes, prop, &allocated);
  if (!made.ok()) return made;
  MutexLock lock(&mutex_);
  Insert(allocated, allocation);
  *address = allocated;
  return Allow();
}

Verdict DeviceAllocations::FindDevice(DevicePtr address, int* device) {
  MutexLock lock(&mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return RefuseValue(kAllocatedRule);
  *device = found->second.device;
  return Allow();
}

Verdict DeviceAllocations::Free(DevicePtr address) {
  MutexLock lock(&mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return RefuseValue(kAllocatedRule);
  const uint64_t bytes = found->second.bytes;
  const Verdict unmapped = memory_->Unmap(address, bytes);
  if (!unmapped.ok()) return unmapped;
  // Of an empty reservation that can only work.
  static_cast<void>(memory_->Unreserve(address, bytes));
  allocations_.erase(found);
  count_.store(allocations_.size(), std::memory_order_relaxed);
  return Allow();
}

Verdict DeviceAllocations::RefuseIfAllocated(DevicePtr address) {
  MutexLock lock(&mutex_);
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return Allow();
  --after;
  if (address - after->first >= after->second.bytes) return Allow();
  return RefuseValue(
      "what was allocated by MemAlloc must be left to MemFree as it is");
}

void DeviceAllocations::Insert(DevicePtr address,
                               const Allocation& allocation) {
  allocations_[address] = allocation;
  count_.store(allocations_.size(), std::memory_order_relaxed);
}

}  // namespace firn::cpu

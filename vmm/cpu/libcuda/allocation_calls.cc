// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exported functions that allocate and free in one call: of device memory,
// made of the calls on virtual memory, and of host memory.

#include <cstdlib>
#include <limits>

#include "firn/vmm/cpu/libcuda/calls.h"
#include "firn/vmm/cpu/libcuda/process.h"
#include "firn/vmm/cpu/libcuda/symbols.h"

namespace firn::libcuda {
namespace {

constexpr size_t kHostAlignmentBytes = 4096;
// CU_MEMHOSTALLOC_PORTABLE, _DEVICEMAP and _WRITECOMBINED: without effect.
constexpr uint32_t kHostAllocFlags = 7;

// `bytes` in whole multiples of `unit_bytes`, a power of two; 0 if that cannot
// be counted.
uint64_t RoundUp(uint64_t bytes, uint64_t unit_bytes) {
  if (bytes > std::numeric_limits<uint64_t>::max() - (unit_bytes - 1)) return 0;
  return (bytes + unit_bytes - 1) & ~(unit_bytes - 1);
}

// Reserved, created, mapped and accessible memory of one device; or nothing.
DriverResult Allocate(const Device& device, uint64_t bytes,
                      const AllocationProp& prop, DevicePtr* address) {
  DriverResult result = device.front->MemAddressReserve(address, bytes, 0, 0,
                                                        /*flags=*/0);
  if (result != DriverResult::kSuccess) return result;
  PhysicalHandle handle = 0;
  result = device.front->MemCreate(&handle, bytes, &prop, /*flags=*/0);
  if (result == DriverResult::kSuccess) {
    result = device.front->MemMap(*address, bytes, 0, handle, /*flags=*/0);
    if (result == DriverResult::kSuccess) {
      const AccessDesc access{prop.location, AccessFlags::kReadWrite};
      result = device.front->MemSetAccess(*address, bytes, &access, 1);
      if (result != DriverResult::kSuccess) {
        device.cpu->MemUnmap(*address, bytes);
      }
    }
    // The mapping, if there is one, keeps the memory.
    device.cpu->MemRelease(handle);
  }
  if (result != DriverResult::kSuccess) {
    device.cpu->MemAddressFree(*address, bytes);
  }
  return result;
}

DriverResult AllocateHost(void** memory, size_t bytes, uint32_t flags) {
  return OnCurrentDevice([&](Process& process, const Device&) {
    if (memory == nullptr || bytes == 0 || (flags & ~kHostAllocFlags) != 0) {
      return DriverResult::kInvalidValue;
    }
    const uint64_t whole_bytes = RoundUp(bytes, kHostAlignmentBytes);
    void* const allocated =
        whole_bytes == 0 ? nullptr
                         : std::aligned_alloc(kHostAlignmentBytes, whole_bytes);
    if (allocated == nullptr) return DriverResult::kOutOfMemory;
    Allocations::Record record;
    record.bytes = whole_bytes;
    process.allocations().Insert(reinterpret_cast<uint64_t>(allocated), record);
    *memory = allocated;
    return DriverResult::kSuccess;
  });
}

}  // namespace

extern "C" {

DriverResult cuMemAlloc_v3020(DevicePtr* address, size_t bytes) {
  return OnCurrentDevice([&](Process& process, const Device& device) {
    if (address == nullptr || bytes == 0) return DriverResult::kInvalidValue;
    AllocationProp prop;
    prop.type = AllocationType::kPinned;
    prop.location = {LocationType::kDevice, device.ordinal};
    size_t granularity_bytes = 0;
    DriverResult result = device.cpu->MemGetAllocationGranularity(
        &granularity_bytes, &prop, GranularityKind::kMinimum);
    if (result != DriverResult::kSuccess) return result;
    Allocations::Record record;
    record.bytes = RoundUp(bytes, granularity_bytes);
    record.device_ordinal = device.ordinal;
    if (record.bytes == 0) return DriverResult::kOutOfMemory;
    DevicePtr allocated = 0;
    result = Allocate(device, record.bytes, prop, &allocated);
    if (result != DriverResult::kSuccess) return result;
    process.reservations().Insert(allocated, record.bytes);
    process.allocations().Insert(allocated, record);
    *address = allocated;
    return DriverResult::kSuccess;
  });
}

// Waits for all work of the memory's device, in whatever context, as a real
// driver does.
DriverResult cuMemFree_v3020(DevicePtr address) {
  return OnCurrentDevice([&](Process& process, const Device&) {
    const Allocations::Record record =
        process.allocations().Take(address, /*host=*/false);
    if (record.bytes == 0) return DriverResult::kInvalidValue;
    const Device& owner =
        process.devices()[static_cast<size_t>(record.device_ordinal)];
    DriverResult result = owner.cpu->CtxSynchronize();
    if (result == DriverResult::kSuccess) {
      result = process.contexts().Synchronize(owner.ordinal);
    }
    if (result == DriverResult::kSuccess) {
      result = owner.front->MemUnmap(address, record.bytes);
    }
    if (result != DriverResult::kSuccess) {
      process.allocations().Insert(address, record);
      return result;
    }
    process.reservations().Take(address);
    return owner.cpu->MemAddressFree(address, record.bytes);
  });
}

DriverResult cuMemHostAlloc_v2020(void** memory, size_t bytes, uint32_t flags) {
  return AllocateHost(memory, bytes, flags);
}

DriverResult cuMemAllocHost_v3020(void** memory, size_t bytes) {
  return AllocateHost(memory, bytes, /*flags=*/0);
}

// Does not wait: a copy in flight must have ended.
DriverResult cuMemFreeHost_v2000(void* memory) {
  return OnCurrentDevice([&](Process& process, const Device&) {
    const Allocations::Record record = process.allocations().Take(
        reinterpret_cast<uint64_t>(memory), /*host=*/true);
    if (record.bytes == 0) return DriverResult::kInvalidValue;
    std::free(memory);
    return DriverResult::kSuccess;
  });
}

}  // extern "C"
}  // namespace firn::libcuda

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exported functions that allocate and free in one call: of device memory
// and of host memory.

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
    process.host_allocations().Insert(allocated);
    *memory = allocated;
    return DriverResult::kSuccess;
  });
}

}  // namespace

extern "C" {

DriverResult cuMemAlloc_v3020(DevicePtr* address, size_t bytes) {
  return OnCurrentDevice([&](Process& process, const Device& device) {
    DriverResult result = device.front->MemAlloc(address, bytes);
    if (result != DriverResult::kSuccess) return result;
    DevicePtr base = 0;
    size_t whole_bytes = 0;
    result = device.cpu->MemGetAddressRange(&base, &whole_bytes, *address);
    if (result == DriverResult::kSuccess) {
      process.reservations().Insert(base, whole_bytes);
    }
    return result;
  });
}

DriverResult cuMemFree_v3020(DevicePtr address) {
  return OnCurrentDevice([&](Process& process, const Device& device) {
    // First, because another thread may be given the address at once.
    const uint64_t whole_bytes = process.reservations().Take(address);
    const DriverResult result = device.front->MemFree(address);
    if (result != DriverResult::kSuccess && whole_bytes != 0) {
      process.reservations().Insert(address, whole_bytes);
    }
    return result;
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
    if (!process.host_allocations().Take(memory)) {
      return DriverResult::kInvalidValue;
    }
    std::free(memory);
    return DriverResult::kSuccess;
  });
}

}  // extern "C"
}  // namespace firn::libcuda

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/argument_rules.h"

namespace firn::cpu {
namespace {

// CU_MEM_ALLOCATION_COMP_GENERIC, a wish that need not be granted.
constexpr unsigned char kCompressionGeneric = 1;
// CU_MEM_CREATE_USAGE_TILE_POOL and _HW_DECOMPRESS.
constexpr uint16_t kKnownUsages = 3;

DriverResult CheckLocation(const MemLocation& location) {
  switch (location.type) {
    case LocationType::kDevice:
      return location.id == 0 ? DriverResult::kSuccess
                              : DriverResult::kInvalidValue;
    case LocationType::kHost:
    case LocationType::kHostNuma:
      return DriverResult::kNotSupported;
    case LocationType::kInvalid:
      break;
  }
  return DriverResult::kInvalidValue;
}

DriverResult CheckHandleTypes(ShareableHandleType types) {
  constexpr auto kKnown =
      static_cast<int32_t>(ShareableHandleType::kPosixFileDescriptor) |
      static_cast<int32_t>(ShareableHandleType::kFabric);
  const auto bits = static_cast<int32_t>(types);
  if (bits == 0) return DriverResult::kSuccess;
  return (bits & ~kKnown) == 0 ? DriverResult::kNotSupported
                               : DriverResult::kInvalidValue;
}

DriverResult CheckAllocFlags(const AllocationProp& prop) {
  const auto& flags = prop.alloc_flags;
  for (const unsigned char byte : flags.reserved) {
    if (byte != 0) return DriverResult::kInvalidValue;
  }
  if (flags.compression_type > kCompressionGeneric ||
      flags.gpu_direct_rdma_capable > 1 || (flags.usage & ~kKnownUsages) != 0) {
    return DriverResult::kInvalidValue;
  }
  if (flags.gpu_direct_rdma_capable != 0 || flags.usage != 0) {
    return DriverResult::kNotSupported;
  }
  return DriverResult::kSuccess;
}

}  // namespace

DriverResult CheckAllocationProp(const AllocationProp& prop) {
  if (prop.type != AllocationType::kPinned ||
      prop.win32_handle_metadata != nullptr) {
    return DriverResult::kInvalidValue;
  }
  const DriverResult results[] = {CheckLocation(prop.location),
                                  CheckHandleTypes(prop.requested_handle_types),
                                  CheckAllocFlags(prop)};
  // What makes no sense is said before what is not supported.
  DriverResult worst = DriverResult::kSuccess;
  for (const DriverResult result : results) {
    if (result == DriverResult::kInvalidValue) return result;
    if (result != DriverResult::kSuccess) worst = result;
  }
  return worst;
}

DriverResult CheckReserve(size_t bytes, size_t alignment_bytes, DevicePtr hint,
                          uint64_t flags, uint64_t host_page_bytes) {
  if (flags != 0 || hint % host_page_bytes != 0) {
    return DriverResult::kInvalidValue;
  }
  const bool power_of_two_or_0 = (alignment_bytes & (alignment_bytes - 1)) == 0;
  if (bytes == 0 || bytes % host_page_bytes != 0 || !power_of_two_or_0) {
    return DriverResult::kOutOfMemory;
  }
  return DriverResult::kSuccess;
}

bool IsTheDevice(const MemLocation& location) {
  return location.type == LocationType::kDevice && location.id == 0;
}

DriverResult CheckAccessDescs(const AccessDesc* descs, size_t count,
                              AccessFlags* access) {
  // With one device a second descriptor could only contradict the first.
  if (descs == nullptr || count != 1 || !IsTheDevice(descs[0].location)) {
    return DriverResult::kInvalidValue;
  }
  switch (descs[0].flags) {
    case AccessFlags::kNone:
    case AccessFlags::kRead:
    case AccessFlags::kReadWrite:
      *access = descs[0].flags;
      return DriverResult::kSuccess;
  }
  return DriverResult::kInvalidValue;
}

}  // namespace firn::cpu

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/argument_rules.h"

namespace firn::cpu {
namespace {

// CU_MEM_ALLOCATION_COMP_GENERIC, a wish that need not be granted.
constexpr unsigned char kCompressionGeneric = 1;
// CU_MEM_CREATE_USAGE_TILE_POOL and _HW_DECOMPRESS.
constexpr uint16_t kKnownUsages = 3;

constexpr auto kPosixBit =
    static_cast<int32_t>(ShareableHandleType::kPosixFileDescriptor);
constexpr auto kFabricBit = static_cast<int32_t>(ShareableHandleType::kFabric);
constexpr const char* kPosixRule =
    "POSIX file descriptors are the only shareable handles there are";

bool IsDevice(int32_t id, int device_count) {
  return id >= 0 && id < device_count;
}

Verdict CheckLocation(const AllocationProp& prop, int device_count) {
  switch (prop.location.type) {
    case LocationType::kDevice:
      return IsDevice(prop.location.id, device_count)
                 ? Allow()
                 : RefuseValue("the location must be a device that exists");
    case LocationType::kHost:
      return prop.requested_handle_types == ShareableHandleType::kNone
                 ? Allow()
                 : RefuseValue("memory of the host is not to be shareable");
    case LocationType::kHostNuma:
      return prop.location.id == 0
                 ? Allow()
                 : RefuseValue("the location must be node 0 of the host");
    case LocationType::kHostNumaCurrent:
    case LocationType::kInvalid:
      break;
  }
  return RefuseValue("the location must be a device, the host or a host node");
}

Verdict CheckHandleTypes(ShareableHandleType types) {
  const auto bits = static_cast<int32_t>(types);
  if ((bits & ~(kPosixBit | kFabricBit)) != 0) {
    return RefuseValue("the shareable handle types must be known ones");
  }
  return (bits & kFabricBit) == 0
             ? Allow()
             : Refuse(DriverResult::kNotSupported, kPosixRule);
}

Verdict CheckAllocFlags(const AllocationProp& prop) {
  const auto& flags = prop.alloc_flags;
  for (const unsigned char byte : flags.reserved) {
    if (byte != 0) return RefuseValue("the reserved bytes must be 0");
  }
  if (flags.compression_type > kCompressionGeneric) {
    return RefuseValue("the compression must be none or generic");
  }
  if (flags.gpu_direct_rdma_capable > 1) {
    return RefuseValue("the flag for RDMA must be 0 or 1");
  }
  if ((flags.usage & ~kKnownUsages) != 0) {
    return RefuseValue("the usage must be a known one");
  }
  return flags.usage == 0
             ? Allow()
             : Refuse(DriverResult::kNotSupported,
                      "memory has no special usage on this device");
}

}  // namespace

Verdict CheckAllocationProp(const AllocationProp& prop, int device_count) {
  if (prop.type != AllocationType::kPinned) {
    return RefuseValue("the allocation type must be pinned");
  }
  if (prop.win32_handle_metadata != nullptr) {
    return RefuseValue("metadata for Windows must be null");
  }
  const Verdict verdicts[] = {CheckLocation(prop, device_count),
                              CheckHandleTypes(prop.requested_handle_types),
                              CheckAllocFlags(prop)};
  // What makes no sense is said before what is not supported.
  Verdict worst = Allow();
  for (const Verdict& verdict : verdicts) {
    if (verdict.result == DriverResult::kInvalidValue) return verdict;
    if (!verdict.ok()) worst = verdict;
  }
  return worst;
}

AllocationProp GrantedProp(const AllocationProp& prop) {
  AllocationProp granted = prop;
  granted.alloc_flags.compression_type = 0;
  if (prop.location.type == LocationType::kHost) granted.location.id = 0;
  return granted;
}

Verdict CheckReserve(size_t bytes, size_t alignment_bytes, DevicePtr hint,
                     uint64_t flags, uint64_t host_page_bytes) {
  if (flags != 0) return RefuseValue("flags must be 0");
  if (hint % host_page_bytes != 0) {
    return RefuseValue("the hint must be a multiple of the host's page size");
  }
  if (bytes == 0 || bytes % host_page_bytes != 0) {
    return Refuse(DriverResult::kOutOfMemory,
                  "the byte count must be a multiple of the host's page size, "
                  "and not 0");
  }
  if ((alignment_bytes & (alignment_bytes - 1)) != 0) {
    return Refuse(DriverResult::kOutOfMemory,
                  "the alignment must be a power of two or 0");
  }
  return Allow();
}

Verdict CheckAccessLocation(const MemLocation& location, int device_count,
                            int* number) {
  switch (location.type) {
    case LocationType::kDevice:
      if (!IsDevice(location.id, device_count)) {
        return RefuseValue("the location must be a device that exists");
      }
      *number = location.id;
      return Allow();
    case LocationType::kHost:
    case LocationType::kHostNuma:
      *number = kHostLocation;
      return Allow();
    case LocationType::kHostNumaCurrent:
    case LocationType::kInvalid:
      break;
  }
  return RefuseValue("the location must be a device, the host or a host node");
}

Verdict CheckAccessDescs(const AccessDesc* descs, size_t count,
                         int device_count, AccessChange* change) {
  if (descs == nullptr || count == 0) {
    return RefuseValue("at least one access descriptor must be given");
  }
  for (size_t i = 0; i < count; ++i) {
    int number = 0;
    const Verdict located =
        CheckAccessLocation(descs[i].location, device_count, &number);
    if (!located.ok()) return located;
    switch (descs[i].flags) {
      case AccessFlags::kNone:
      case AccessFlags::kRead:
      case AccessFlags::kReadWrite:
        break;
      default:
        return RefuseValue("the access must be none, read or read-write");
    }
    if (!change->Add(number, descs[i].flags)) {
      return RefuseValue("no two access descriptors may contradict each other");
    }
  }
  return Allow();
}

Verdict CheckAccessors(const AccessChange& change, const MemLocation& owner,
                       int device_count, bool peer_access) {
  if (owner.type != LocationType::kDevice) return Allow();
  if (change.names(kHostLocation)) {
    return RefuseValue(
        "the host can be given access only to memory of the host");
  }
  if (peer_access) return Allow();
  for (int device = 0; device < device_count; ++device) {
    if (device != owner.id && change.names(device)) {
      return RefuseValue(
          "a device can be given access to memory of another one only where "
          "the two are peers (cuDeviceCanAccessPeer)");
    }
  }
  return Allow();
}

Verdict CheckShareableType(ShareableHandleType type) {
  if (type == ShareableHandleType::kPosixFileDescriptor) return Allow();
  if (type == ShareableHandleType::kFabric) {
    return Refuse(DriverResult::kNotSupported, kPosixRule);
  }
  return RefuseValue(
      "exactly one known type of shareable handle must be named");
}

}  // namespace firn::cpu

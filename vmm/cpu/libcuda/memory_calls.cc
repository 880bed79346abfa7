// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exported functions of virtual memory management, and queries of what is
// at an address. They belong to no context; errors and waits are those of the
// current context's device, or of the first one.

#include <cstring>

#include "firn/vmm/cpu/libcuda/calls.h"
#include "firn/vmm/cpu/libcuda/process.h"
#include "firn/vmm/cpu/libcuda/symbols.h"

namespace firn::libcuda {
namespace {

// The bytes of an attribute's type; 0 for one that is not known here.
size_t BytesOf(PointerAttribute attribute) {
  switch (attribute) {
    case PointerAttribute::kMemoryType:
    case PointerAttribute::kDeviceOrdinal:
    case PointerAttribute::kAccessFlags:
      return 4;
    case PointerAttribute::kIsLegacyIpcCapable:
    case PointerAttribute::kMapped:
    case PointerAttribute::kIsRdmaCapable:
      return 1;
    case PointerAttribute::kRangeStart:
    case PointerAttribute::kRangeBytes:
    case PointerAttribute::kAllowedHandleTypes:
    case PointerAttribute::kMappingBytes:
    case PointerAttribute::kMappingStart:
      return 8;
  }
  return 0;
}

}  // namespace

extern "C" {

DriverResult cuMemGetAllocationGranularity_v10020(size_t* granularity_bytes,
                                                  const AllocationProp* prop,
                                                  GranularityKind kind) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->MemGetAllocationGranularity(granularity_bytes, prop,
                                                     kind);
  });
}

DriverResult cuMemAddressReserve_v10020(DevicePtr* address, size_t bytes,
                                        size_t alignment_bytes, DevicePtr hint,
                                        uint64_t flags) {
  return OnAnyDevice([&](Process& process, const Device& device) {
    const DriverResult result = device.front->MemAddressReserve(
        address, bytes, alignment_bytes, hint, flags);
    if (result == DriverResult::kSuccess) {
      process.reservations().Insert(*address, bytes);
    }
    return result;
  });
}

DriverResult cuMemAddressFree_v10020(DevicePtr address, size_t bytes) {
  return OnAnyDevice([&](Process& process, const Device& device) {
    // First, because another thread may be given the address at once.
    const uint64_t reserved_bytes = process.reservations().Take(address);
    const DriverResult result = device.front->MemAddressFree(address, bytes);
    if (result != DriverResult::kSuccess && reserved_bytes != 0) {
      process.reservations().Insert(address, reserved_bytes);
    }
    return result;
  });
}

DriverResult cuMemCreate_v10020(PhysicalHandle* handle, size_t bytes,
                                const AllocationProp* prop, uint64_t flags) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->MemCreate(handle, bytes, prop, flags);
  });
}

DriverResult cuMemRelease_v10020(PhysicalHandle handle) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->MemRelease(handle);
  });
}

DriverResult cuMemMap_v10020(DevicePtr address, size_t bytes,
                             size_t offset_bytes, PhysicalHandle handle,
                             uint64_t flags) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->MemMap(address, bytes, offset_bytes, handle, flags);
  });
}

DriverResult cuMemUnmap_v10020(DevicePtr address, size_t bytes) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->MemUnmap(address, bytes);
  });
}

DriverResult cuMemSetAccess_v10020(DevicePtr address, size_t bytes,
                                   const AccessDesc* descs, size_t count) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->MemSetAccess(address, bytes, descs, count);
  });
}

DriverResult cuMemGetAccess_v10020(uint64_t* flags, const MemLocation* location,
                                   DevicePtr address) {
  return OnAnyDevice([&](Process&, const Device& device) {
    if (flags == nullptr) return DriverResult::kInvalidValue;
    AccessFlags narrow_flags = AccessFlags::kNone;
    const DriverResult result =
        device.front->MemGetAccess(&narrow_flags, location, address);
    if (result == DriverResult::kSuccess) {
      *flags = static_cast<uint64_t>(narrow_flags);
    }
    return result;
  });
}

DriverResult cuMemRetainAllocationHandle_v11000(PhysicalHandle* handle,
                                                void* address) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->MemRetainAllocationHandle(
        handle, reinterpret_cast<DevicePtr>(address));
  });
}

DriverResult cuMemGetAllocationPropertiesFromHandle_v10020(
    AllocationProp* prop, PhysicalHandle handle) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->MemGetAllocationPropertiesFromHandle(prop, handle);
  });
}

DriverResult cuMemExportToShareableHandle_v10020(void* shareable,
                                                 PhysicalHandle handle,
                                                 ShareableHandleType type,
                                                 uint64_t flags) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->MemExportToShareableHandle(shareable, handle, type,
                                                    flags);
  });
}

DriverResult cuMemImportFromShareableHandle_v10020(PhysicalHandle* handle,
                                                   void* shareable,
                                                   ShareableHandleType type) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->MemImportFromShareableHandle(handle, shareable, type);
  });
}

DriverResult cuMemGetAddressRange_v3020(DevicePtr* base, size_t* bytes,
                                        DevicePtr address) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->MemGetAddressRange(base, bytes, address);
  });
}

DriverResult cuPointerGetAttribute_v4000(void* data, PointerAttribute attribute,
                                         DevicePtr address) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->PointerGetAttribute(data, attribute, address);
  });
}

// Of an address that is none of the driver's, every attribute is zero.
DriverResult cuPointerGetAttributes_v7000(uint32_t count,
                                          const int32_t* attributes,
                                          void** data, DevicePtr address) {
  return OnAnyDevice([&](Process& process, const Device& device) {
    if (count == 0 || attributes == nullptr || data == nullptr) {
      return DriverResult::kInvalidValue;
    }
    const bool is_reserved = process.reservations().Contains(address);
    for (uint32_t i = 0; i < count; ++i) {
      const auto attribute = static_cast<PointerAttribute>(attributes[i]);
      const size_t bytes = BytesOf(attribute);
      if (bytes == 0) return DriverResult::kNotSupported;
      if (data[i] == nullptr) return DriverResult::kInvalidValue;
      std::memset(data[i], 0, bytes);
      if (!is_reserved) continue;
      const DriverResult result =
          device.front->PointerGetAttribute(data[i], attribute, address);
      // A reservation without a mapping lacks some.
      if (result != DriverResult::kSuccess &&
          result != DriverResult::kInvalidValue) {
        return result;
      }
    }
    return DriverResult::kSuccess;
  });
}

DriverResult cuMemGetInfo_v3020(size_t* free_bytes, size_t* total_bytes) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->MemGetInfo(free_bytes, total_bytes);
  });
}

}  // extern "C"
}  // namespace firn::libcuda

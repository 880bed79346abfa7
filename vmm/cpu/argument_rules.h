// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules about arguments that need no books: properties, locations, access
// descriptors. Where CUDA only documents a set of error codes, the one that
// NVIDIA's driver was seen to return is used.

#ifndef FIRN_VMM_CPU_ARGUMENT_RULES_H_
#define FIRN_VMM_CPU_ARGUMENT_RULES_H_

#include <cstddef>
#include <cstdint>

#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Host memory and shareable handles are kNotSupported here, as on a device
// that lacks them; what makes no sense is kInvalidValue.
DriverResult CheckAllocationProp(const AllocationProp& prop);

// A bad count of bytes or alignment is kOutOfMemory, as NVIDIA has it.
DriverResult CheckReserve(size_t bytes, size_t alignment_bytes, DevicePtr hint,
                          uint64_t flags, uint64_t host_page_bytes);

// Location {Device, 0}: the one device there is.
bool IsTheDevice(const MemLocation& location);

// Finds the access that the descriptors give to the one device.
DriverResult CheckAccessDescs(const AccessDesc* descs, size_t count,
                              AccessFlags* access);

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_ARGUMENT_RULES_H_

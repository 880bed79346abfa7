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

#include "firn/vmm/cpu/access_set.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Fabric handles and special usages are kNotSupported, as on a device that
// lacks them; what makes no sense is kInvalidValue.
Verdict CheckAllocationProp(const AllocationProp& prop, int device_count);

// What is granted of the properties that CheckAllocationProp allows.
AllocationProp GrantedProp(const AllocationProp& prop);

// A bad count of bytes or alignment is kOutOfMemory, as NVIDIA has it.
Verdict CheckReserve(size_t bytes, size_t alignment_bytes, DevicePtr hint,
                     uint64_t flags, uint64_t host_page_bytes);

// Finds the number (see AccessSet) of a location that accesses memory.
Verdict CheckAccessLocation(const MemLocation& location, int device_count,
                            int* number);

// Finds what the descriptors change.
Verdict CheckAccessDescs(const AccessDesc* descs, size_t count,
                         int device_count, AccessChange* change);

// Whether all that `change` names may access memory of `owner`: devices without
// peer access only their own and the host's, the host only its own.
Verdict CheckAccessors(const AccessChange& change, const MemLocation& owner,
                       int device_count, bool peer_access);

// Whether it is the one type of shareable handle that there is.
Verdict CheckShareableType(ShareableHandleType type);

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_ARGUMENT_RULES_H_

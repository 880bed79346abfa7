// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The properties of physical memory, built here and nowhere else: what memory
// may do is decided when it is created.

#ifndef FIRN_VMM_ALLOCATION_PROPS_H_
#define FIRN_VMM_ALLOCATION_PROPS_H_

#include "firn/vmm/driver_types.h"

namespace firn {

// Memory of a device that may move: without a shareable handle type and not
// RDMA-capable. Who would hold on to the physical memory behind an address
// (another process, a network card) then fails when it registers, instead of
// going on with the old granule after a move.
AllocationProp MovableProp(int device_ordinal);

// Memory of a device that others may hold on to: exported as `types`, where
// RDMA-capable to network cards as well. A handle cannot be given either later,
// so it is a class of its own that stays where it is from birth.
AllocationProp ExportableProp(int device_ordinal, ShareableHandleType types,
                              bool rdma_capable);

// Memory of the host for what is spilled there. `location` is kHost (whose id
// does not matter and is 0 here) or kHostNuma with a node. It moves back, so it
// is not shareable; the driver would refuse that of kHost anyway.
AllocationProp HostProp(const MemLocation& location);

// Whether memory of these properties may be held on to from outside: such
// memory must never move.
bool MayBeShared(const AllocationProp& prop);

}  // namespace firn

#endif  // FIRN_VMM_ALLOCATION_PROPS_H_

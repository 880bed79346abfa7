// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/allocation_props.h"

namespace firn {
namespace {

// All else stays zero, as the driver requires of what is reserved, and as the
// target of a move needs it: not compressed, without a special usage.
AllocationProp PinnedAt(const MemLocation& location) {
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location = location;
  return prop;
}

}  // namespace

AllocationProp MovableProp(int device_ordinal) {
  return PinnedAt({LocationType::kDevice, device_ordinal});
}

AllocationProp ExportableProp(int device_ordinal, ShareableHandleType types,
                              bool rdma_capable) {
  AllocationProp prop = PinnedAt({LocationType::kDevice, device_ordinal});
  prop.requested_handle_types = types;
  prop.alloc_flags.gpu_direct_rdma_capable = rdma_capable ? 1 : 0;
  return prop;
}

AllocationProp HostProp(const MemLocation& location) {
  const bool has_node = location.type == LocationType::kHostNuma;
  return PinnedAt({location.type, has_node ? location.id : 0});
}

bool MayBeShared(const AllocationProp& prop) {
  return prop.requested_handle_types != ShareableHandleType::kNone ||
         prop.alloc_flags.gpu_direct_rdma_capable != 0;
}

}  // namespace firn

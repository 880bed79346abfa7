// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What device work accesses: by address, as work declares it, and by the bytes
// of memory behind the addresses.

#ifndef FIRN_VMM_CPU_ACCESS_RANGE_H_
#define FIRN_VMM_CPU_ACCESS_RANGE_H_

#include <cstdint>

#include "firn/vmm/driver_types.h"

namespace firn::cpu {

struct AccessRange {
  DevicePtr address = 0;
  uint64_t bytes = 0;
  bool writes = false;
};

struct PhysicalRange {
  // One physical allocation; never reused in a process.
  uint64_t memory_id = 0;
  uint64_t offset_bytes = 0;
  uint64_t bytes = 0;
  // Through which the bytes are accessed.
  DevicePtr address = 0;
  bool writes = false;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_ACCESS_RANGE_H_

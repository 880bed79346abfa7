// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands behind a device's books: memory with contents (RealStorage) or
// nothing but addresses (GhostStorage).

#ifndef FIRN_VMM_CPU_STORAGE_H_
#define FIRN_VMM_CPU_STORAGE_H_

#include <cstdint>

#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Consecutive granules of one reservation that have the same access now, and
// that lie in a row in the storage too.
struct AccessRun {
  DevicePtr address = 0;
  uint64_t granules = 0;
  // Whole mappings that make up the run.
  uint64_t mappings = 0;
  uint64_t first_granule = 0;
  AccessFlags access = AccessFlags::kNone;
};

// Trusts its caller: the books have been asked before. What is mapped without
// access is of no concern to it.
//
// Thread safety: none, calls must be serialised.
class Storage {
 public:
  virtual ~Storage() = default;

  virtual DriverResult Reserve(uint64_t bytes, uint64_t alignment_bytes,
                               DevicePtr hint, DevicePtr* address) = 0;
  // Nothing in the range is accessible any more.
  virtual void Unreserve(DevicePtr address, uint64_t bytes) = 0;

  virtual DriverResult Allocate(uint64_t granules, uint64_t* first_granule) = 0;
  virtual void Free(uint64_t first_granule, uint64_t granules) = 0;

  // Changes the access of `run` from `run.access` to `access`. Giving access
  // can fail, and then changes nothing.
  virtual DriverResult SetAccess(const AccessRun& run, AccessFlags access) = 0;
  // Takes all access away, wherever in the storage the granules lie.
  virtual void RemoveAccess(DevicePtr address, uint64_t granules,
                            uint64_t mappings) = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_STORAGE_H_

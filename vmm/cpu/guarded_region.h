// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A reservation as the fault handler sees it: the access that the host's MMU
// gives to each granule at this moment.

#ifndef FIRN_VMM_CPU_GUARDED_REGION_H_
#define FIRN_VMM_CPU_GUARDED_REGION_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Thread safety: read and written only under the lock of the FaultGuard that
// it belongs to. Nothing here allocates or blocks, except the constructor.
class GuardedRegion {
 public:
  GuardedRegion(DevicePtr base, uint64_t bytes, uint64_t granularity_bytes);
  GuardedRegion(const GuardedRegion&) = delete;
  GuardedRegion& operator=(const GuardedRegion&) = delete;

  DevicePtr base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  // A part of a granule at the end counts, though it is never accessible.
  uint64_t granules() const { return granules_; }

  bool Contains(DevicePtr address) const {
    return address >= base_ && address - base_ < bytes_;
  }
  uint64_t GranuleOf(DevicePtr address) const {
    return (address - base_) / granularity_bytes_;
  }
  AccessFlags access(uint64_t granule) const {
    return static_cast<AccessFlags>(access_[granule]);
  }
  void SetAccess(uint64_t first, uint64_t granules, AccessFlags access);

  // How many more gaps (rows of granules without access) there are when
  // [first, first + granules) becomes accessible or inaccessible.
  int64_t GapsAdded(uint64_t first, uint64_t granules,
                    bool accessible_after) const;

 private:
  friend class FaultGuard;
  struct FreeDeleter {
    void operator()(uint8_t* bytes) const { free(bytes); }
  };

  bool accessible(uint64_t granule) const { return access_[granule] != 0; }

  const DevicePtr base_;
  const uint64_t bytes_;
  const uint64_t granularity_bytes_;
  const uint64_t granules_;
  // AccessFlags by granule. From calloc, so that what is never used of a large
  // reservation takes no memory.
  const std::unique_ptr<uint8_t[], FreeDeleter> access_;
  // The next of its guard's list.
  GuardedRegion* next_ = nullptr;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_GUARDED_REGION_H_

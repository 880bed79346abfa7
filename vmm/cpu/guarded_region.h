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

inline void GuardedRegion::SetAccess(uint64_t first, uint64_t granules,
                                     AccessFlags access) {
  for (uint64_t i = first; i < first + granules; ++i) {
    access_[i] = static_cast<uint8_t>(access);
  }
}

inline int64_t GuardedRegion::GapsAdded(uint64_t first, uint64_t granules,
                                        bool accessible_after) const {
  // A gap is counted at its first granule: one without access whose
  // predecessor has access or does not exist. The range can change that for
  // its own granules and for the one behind it.
  const uint64_t end = first + granules;
  int64_t before = 0;
  bool previous = first == 0 || accessible(first - 1);
  for (uint64_t i = first; i < end; ++i) {
    if (!accessible(i) && previous) ++before;
    previous = accessible(i);
  }
  const bool gap_behind = end < granules_ && !accessible(end);
  if (gap_behind && previous) ++before;

  int64_t after = 0;
  if (!accessible_after && (first == 0 || accessible(first - 1))) ++after;
  if (gap_behind && accessible_after) ++after;
  return after - before;
}

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_GUARDED_REGION_H_

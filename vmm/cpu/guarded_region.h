// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A reservation as the fault handler sees it: the access that the storage gave
// to each granule, and which granules show a scratch page at this moment.

#ifndef FIRN_VMM_CPU_GUARDED_REGION_H_
#define FIRN_VMM_CPU_GUARDED_REGION_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "firn/vmm/cpu/backing.h"
#include "firn/vmm/cpu/storage.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Thread safety: read and written only under the lock of the FaultGuard that
// it belongs to. Nothing here allocates or blocks, except the constructor and
// AllowReadOnly().
class GuardedRegion {
 public:
  // Does not own `backing`, which may be null where nothing is read-only.
  GuardedRegion(DevicePtr base, uint64_t bytes, uint64_t granularity_bytes,
                const Backing* backing);
  GuardedRegion(const GuardedRegion&) = delete;
  GuardedRegion& operator=(const GuardedRegion&) = delete;

  // Whether there was memory for it; if not, it can do nothing.
  bool valid() const { return notes_ != nullptr; }

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
  // What the storage gave, whatever the granule shows.
  AccessFlags access(uint64_t granule) const {
    return static_cast<AccessFlags>(notes_[granule] & kAccessMask);
  }
  // The storage has mapped the range anew, or changed the access to what it
  // shows and that is no scratch page. kRead: see SetReadOnly.
  void SetAccess(uint64_t first, uint64_t granules, AccessFlags access);

  // Must have returned true before anything is made read-only. False when there
  // is no memory for it. Called without the lock: nothing is read-only yet, so
  // nobody looks at what it makes.
  bool AllowReadOnly();
  // SetAccess(kRead), for granules that show what lies from `place` on.
  void SetReadOnly(uint64_t first, uint64_t granules,
                   const StoragePlace& place);

  // How many more gaps (rows of granules without access) there are when
  // [first, first + granules) becomes accessible or inaccessible.
  int64_t GapsAdded(uint64_t first, uint64_t granules,
                    bool accessible_after) const;

  // --- Scratch pages: only where the storage gave no access or kRead ---

  bool is_scratch(uint64_t granule) const {
    return (notes_[granule] & kScratch) != 0;
  }
  bool HasScratchIn(uint64_t first, uint64_t granules) const;
  // Async-signal-safe. Puts a scratch page over `granule`, or, if `row`, over
  // it and its neighbours as far as they share a kernel mapping with it, which
  // takes no more kernel mappings than there were. False when the kernel
  // refuses.
  bool MapScratchAt(uint64_t granule, bool row);
  // Maps anew, where there are scratch pages, what the storage had mapped.
  // False if the kernel refuses: some are left then.
  bool PutBackScratch();

 private:
  friend class FaultGuard;
  struct FreeDeleter {
    void operator()(void* memory) const { free(memory); }
  };
  // Of notes_: AccessFlags, and whether it is a scratch page.
  static constexpr uint8_t kAccessMask = 3;
  static constexpr uint8_t kScratch = 4;

  bool accessible(uint64_t granule) const {
    return (notes_[granule] & kAccessMask) != 0;
  }
  // Whether granules `granule` and `granule + 1` have the same note and, where
  // they are accessible, lie in a row in the same file.
  bool GoesOn(uint64_t granule) const;
  DevicePtr AddressOf(uint64_t granule) const {
    return base_ + granule * granularity_bytes_;
  }
  // Of [first, end), as far as it is in the region.
  uint64_t BytesOf(uint64_t first, uint64_t end) const {
    return std::min(end * granularity_bytes_, bytes_) -
           first * granularity_bytes_;
  }
  bool PutBackRow(uint64_t first, uint64_t end) const;

  const DevicePtr base_;
  const uint64_t bytes_;
  const uint64_t granularity_bytes_;
  const uint64_t granules_;
  // By granule. From calloc, so that what is never used of a large reservation
  // takes no memory; and so are the places.
  const std::unique_ptr<uint8_t[], FreeDeleter> notes_;
  // The next of its guard's list.
  GuardedRegion* next_ = nullptr;
  const Backing* const backing_;
  // By granule: right where access is kRead. Null as long as nothing was.
  std::unique_ptr<StoragePlace[], FreeDeleter> places_;
  // All scratch pages are in [scratch_first_, scratch_end_).
  uint64_t scratch_first_ = 0;
  uint64_t scratch_end_ = 0;
};

inline void GuardedRegion::SetAccess(uint64_t first, uint64_t granules,
                                     AccessFlags access) {
  for (uint64_t i = first; i < first + granules; ++i) {
    notes_[i] = static_cast<uint8_t>(access);
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

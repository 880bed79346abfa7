// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands behind a driver's books: memory with contents (RealStorage) or
// nothing but addresses (GhostStorage).

#ifndef FIRN_VMM_CPU_STORAGE_H_
#define FIRN_VMM_CPU_STORAGE_H_

#include <cstdint>

#include "firn/vmm/cpu/shared_memory_file.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// What a storage keeps for a reservation.
class StorageRegion {
 public:
  virtual ~StorageRegion() = default;
};

// Where the granules of an allocation lie in a storage: in a row.
struct StoragePlace {
  // The memory file; -1 where there is none.
  int file = -1;
  uint64_t first_granule = 0;
};

// Consecutive granules of one reservation with the same access before a change
// of access and the same after it, that lie in a row in the storage too.
struct AccessRun {
  StorageRegion* region = nullptr;
  // Counted from the region's base.
  uint64_t first = 0;
  uint64_t granules = 0;
  // Mappings that begin in the run.
  int64_t mappings = 0;
  StoragePlace place;
  AccessFlags before = AccessFlags::kNone;
  AccessFlags after = AccessFlags::kNone;
};

// Trusts its caller: the books have been asked before. What is mapped without
// access is of no concern to it.
//
// Thread safety: none, calls must be serialised.
class Storage {
 public:
  virtual ~Storage() = default;

  // Whether memory has contents.
  virtual bool has_contents() const = 0;

  // `*region` may become null: not all storages keep something.
  virtual Verdict Reserve(uint64_t bytes, uint64_t alignment_bytes,
                          DevicePtr hint, DevicePtr* address,
                          StorageRegion** region) = 0;
  // Nothing in the range is accessible any more.
  virtual void Unreserve(DevicePtr address, uint64_t bytes) = 0;

  virtual Verdict Allocate(uint64_t granules, StoragePlace* place) = 0;
  // Memory that can be exported. The storage may put off making its file.
  virtual Verdict AllocateShareable(const SharedMemoryInfo& info,
                                    StoragePlace* place) = 0;
  // Sees to it that such memory has its file, to be exported.
  virtual Verdict MakeFile(const SharedMemoryInfo& info,
                           StoragePlace* place) = 0;
  // Memory that another driver exported. Unless refused, takes over `file`, the
  // descriptor of a PrivateFile.
  virtual Verdict Adopt(int file, StoragePlace* place) = 0;
  // Memory of any kind; nothing of it is accessible any more.
  virtual void Free(const StoragePlace& place, uint64_t granules) = 0;
  // Forgets what is in the memory, which reads as zero from then on.
  virtual void Discard(const StoragePlace& place, uint64_t granules) = 0;

  // Changes the access of `run`. Giving access can fail, and then changes
  // nothing.
  virtual Verdict SetAccess(const AccessRun& run) = 0;
  // Takes all access away from granules of `region`, whether they have some or
  // not and wherever in the storage they lie; `mappings` that have some begin
  // there. Can fail, and then changes nothing.
  virtual Verdict RemoveAccess(StorageRegion* region, uint64_t first,
                               uint64_t granules, int64_t mappings) = 0;
  // One accessible mapping of `region` counts as two from now on.
  virtual void SplitMapping(StorageRegion* region) = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_STORAGE_H_

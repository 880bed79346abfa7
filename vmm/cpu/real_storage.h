// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Storage with contents: granules of memory files, mapped by the host's MMU
// exactly where and as any location may access them.

#ifndef FIRN_VMM_CPU_REAL_STORAGE_H_
#define FIRN_VMM_CPU_REAL_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/container/btree_map.h"
#include "firn/vmm/cpu/backing.h"
#include "firn/vmm/cpu/fault_guard.h"
#include "firn/vmm/cpu/guarded_region.h"
#include "firn/vmm/cpu/storage.h"
#include "firn/vmm/cpu/work_in_flight.h"

namespace firn::cpu {

// Counts, against the process's KernelMappingBudget, the kernel mappings that
// its reservations have in the worst case: one for each accessible mapping (the
// kernel joins those that lie in a row in address and file, but may have to
// part them again) and one for each gap between accessible ranges. Taking
// access away never raises that number. It may raise the number that there are,
// and fails where the program around the driver has left the kernel none: then
// not even those help that the process has to spare.
//
// Addresses given back are kept from the host until all work is over that was
// queued before: work that still goes there is to meet the guard, not what the
// host put there next. While many are kept, they are reserved again before new
// ones are.
class RealStorage : public Storage {
 public:
  // Beyond so many kept reservations they are used again.
  static constexpr size_t kKeptReservations = 256;

  // Does not own `guard`, which must outlive this object. `work_in_flight` is
  // called inside Reserve and Unreserve.
  RealStorage(uint64_t granularity_bytes, std::unique_ptr<Backing> backing,
              FaultGuard* guard, std::function<WorkInFlight()> work_in_flight);
  ~RealStorage() override;
  RealStorage(const RealStorage&) = delete;
  RealStorage& operator=(const RealStorage&) = delete;

  bool has_contents() const override { return true; }
  Verdict Reserve(uint64_t bytes, uint64_t alignment_bytes, DevicePtr hint,
                  DevicePtr* address, StorageRegion** region) override;
  void Unreserve(DevicePtr address, uint64_t bytes) override;
  Verdict Allocate(uint64_t granules, StoragePlace* place) override;
  Verdict AllocateShareable(const SharedMemoryInfo& info,
                            StoragePlace* place) override;
  Verdict MakeFile(const SharedMemoryInfo& info, StoragePlace* place) override;
  Verdict Adopt(int file, StoragePlace* place) override;
  void Free(const StoragePlace& place, uint64_t granules) override;
  void Discard(const StoragePlace& place, uint64_t granules) override;
  Verdict SetAccess(const AccessRun& run) override;
  Verdict RemoveAccess(StorageRegion* region, uint64_t first, uint64_t granules,
                       int64_t mappings) override;
  void SplitMapping(StorageRegion* region) override;

 private:
  // Aligned, so that what a remap reads is in one cache line.
  struct alignas(64) Region : public StorageRegion {
    Region(DevicePtr base, uint64_t bytes, uint64_t granularity_bytes,
           const Backing* backing)
        : guarded(base, bytes, granularity_bytes, backing) {}
    // In the worst case; a fresh reservation is one gap.
    int64_t kernel_mappings = 1;
    GuardedRegion guarded;
    // Once retired: how much work had been queued by then.
    uint64_t retired_at = 0;
  };

  // Makes a region of addresses that the host has free.
  Verdict MakeRegion(uint64_t bytes, uint64_t alignment_bytes, DevicePtr hint,
                     std::unique_ptr<Region>* region);
  // Takes a retired region to reserve again: the one at `hint`, else the
  // smallest that is large enough, else null.
  std::unique_ptr<Region> TakeRetired(uint64_t bytes, uint64_t alignment_bytes,
                                      DevicePtr hint);
  // Gives access where there is none.
  bool GiveAccess(Region* region, const AccessRun& run, DevicePtr address);
  // Changes access where there is some.
  bool ChangeAccess(Region* region, const AccessRun& run, DevicePtr address);
  void GiveBack(Region* region);
  void GiveBackRetired(const WorkInFlight& work);

  const uint64_t granularity_bytes_;
  const std::unique_ptr<Backing> backing_;
  FaultGuard* const guard_;
  const std::function<WorkInFlight()> work_in_flight_;
  // By base.
  absl::btree_map<DevicePtr, std::unique_ptr<Region>> regions_;
  // Given back, but not yet to the host, in this order. They may be larger than
  // what was reserved.
  std::deque<std::unique_ptr<Region>> retired_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_REAL_STORAGE_H_

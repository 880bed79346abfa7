// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Storage with contents: granules of memory files, mapped by the host's MMU
// exactly where and as any location may access them.

#ifndef FIRN_VMM_CPU_REAL_STORAGE_H_
#define FIRN_VMM_CPU_REAL_STORAGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/btree_map.h"
#include "firn/vmm/cpu/backing.h"
#include "firn/vmm/cpu/fault_guard.h"
#include "firn/vmm/cpu/guarded_region.h"
#include "firn/vmm/cpu/storage.h"

namespace firn::cpu {

// Counts, against the process's KernelMappingBudget, the kernel mappings that
// its reservations have in the worst case: one for each accessible mapping (the
// kernel joins those that lie in a row in address and file, but may have to
// part them again) and one for each gap between accessible ranges. Taking
// access away never raises that number, so it never fails.
//
// Addresses given back while the device works are kept from the host until it
// is idle: work in flight that still goes there is to meet the guard, not what
// the host put there next.
class RealStorage : public Storage {
 public:
  // Does not own `guard`, which must outlive this object. `device_is_idle` is
  // called inside Reserve and Unreserve.
  RealStorage(uint64_t granularity_bytes, std::unique_ptr<Backing> backing,
              FaultGuard* guard, std::function<bool()> device_is_idle);
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
  void RemoveAccess(StorageRegion* region, uint64_t first, uint64_t granules,
                    int64_t mappings) override;
  void SplitMapping(StorageRegion* region) override;

 private:
  struct Region : public StorageRegion {
    Region(DevicePtr base, uint64_t bytes, uint64_t granularity_bytes)
        : guarded(base, bytes, granularity_bytes) {}
    GuardedRegion guarded;
    // In the worst case; a fresh reservation is one gap.
    int64_t kernel_mappings = 1;
  };

  // Gives access where there is none.
  bool GiveAccess(Region* region, const AccessRun& run, DevicePtr address);
  void GiveBack(Region* region);
  void DiscardRetiredIfIdle();

  const uint64_t granularity_bytes_;
  const std::unique_ptr<Backing> backing_;
  FaultGuard* const guard_;
  const std::function<bool()> device_is_idle_;
  // By base.
  absl::btree_map<DevicePtr, std::unique_ptr<Region>> regions_;
  // Given back, but not yet to the host.
  std::vector<std::unique_ptr<Region>> retired_regions_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_REAL_STORAGE_H_

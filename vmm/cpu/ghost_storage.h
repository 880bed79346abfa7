// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Storage without contents: addresses are taken from the host, so that they
// are unique and fault when touched; memory is not.

#ifndef FIRN_VMM_CPU_GHOST_STORAGE_H_
#define FIRN_VMM_CPU_GHOST_STORAGE_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "firn/vmm/cpu/storage.h"

namespace firn::cpu {

class GhostStorage : public Storage {
 public:
  GhostStorage() = default;
  ~GhostStorage() override;
  GhostStorage(const GhostStorage&) = delete;
  GhostStorage& operator=(const GhostStorage&) = delete;

  DriverResult Reserve(uint64_t bytes, uint64_t alignment_bytes, DevicePtr hint,
                       DevicePtr* address) override;
  void Unreserve(DevicePtr address, uint64_t bytes) override;
  DriverResult Allocate(uint64_t granules, uint64_t* first_granule) override;
  void Free(uint64_t first_granule, uint64_t granules) override;
  DriverResult SetAccess(const AccessRun& run, AccessFlags access) override;
  void RemoveAccess(DevicePtr address, uint64_t granules,
                    uint64_t mappings) override;

 private:
  // Address to bytes of what is reserved.
  absl::flat_hash_map<DevicePtr, uint64_t> reservations_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_GHOST_STORAGE_H_

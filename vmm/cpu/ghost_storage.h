// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Storage without contents: addresses are taken from the host, so that they
// are unique and fault when touched; memory is not.

#ifndef FIRN_VMM_CPU_GHOST_STORAGE_H_
#define FIRN_VMM_CPU_GHOST_STORAGE_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "firn/vmm/cpu/private_file.h"
#include "firn/vmm/cpu/storage.h"

namespace firn::cpu {

// What is exported is a file that only says what it stands for, made with the
// first export: a device of any size needs no more descriptors than are handed
// out.
//
// Each reservation counts as one kernel mapping of the process's
// KernelMappingBudget.
class GhostStorage : public Storage {
 public:
  GhostStorage() = default;
  ~GhostStorage() override;
  GhostStorage(const GhostStorage&) = delete;
  GhostStorage& operator=(const GhostStorage&) = delete;

  bool has_contents() const override { return false; }
  Verdict Reserve(uint64_t bytes, uint64_t alignment_bytes, DevicePtr hint,
                  DevicePtr* address, StorageRegion** region) override;
  void Unreserve(DevicePtr address, uint64_t bytes) override;
  Verdict Allocate(uint64_t granules, StoragePlace* place) override;
  Verdict AllocateShareable(const SharedMemoryInfo& info,
                            StoragePlace* place) override;
  Verdict MakeFile(const SharedMemoryInfo& info, StoragePlace* place) override;
  Verdict Adopt(int file, StoragePlace* place) override;
  void Free(const StoragePlace& place, uint64_t granules) override;
  void Discard(const StoragePlace& /*place*/, uint64_t /*granules*/) override {}
  Verdict SetAccess(const AccessRun& /*run*/) override { return Allow(); }
  Verdict RemoveAccess(StorageRegion* /*region*/, uint64_t /*first*/,
                       uint64_t /*granules*/, int64_t /*mappings*/) override {
    return Allow();
  }
  void SplitMapping(StorageRegion* /*region*/) override {}

 private:
  StoragePlace Keep(PrivateFile file);

  // Address to bytes of what is reserved.
  absl::flat_hash_map<DevicePtr, uint64_t> reservations_;
  // By descriptor.
  absl::flat_hash_map<int, PrivateFile> files_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_GHOST_STORAGE_H_

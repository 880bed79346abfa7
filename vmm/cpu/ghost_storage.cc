// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/ghost_storage.h"

#include "firn/vmm/cpu/host_mapping.h"

namespace firn::cpu {

GhostStorage::~GhostStorage() {
  for (const auto& [address, bytes] : reservations_) {
    ReleaseAddresses(address, bytes);
  }
}

DriverResult GhostStorage::Reserve(uint64_t bytes, uint64_t alignment_bytes,
                                   DevicePtr hint, DevicePtr* address) {
  if (!ReserveAddresses(bytes, alignment_bytes, hint, address)) {
    return DriverResult::kOutOfMemory;
  }
  reservations_.emplace(*address, bytes);
  return DriverResult::kSuccess;
}

void GhostStorage::Unreserve(DevicePtr address, uint64_t bytes) {
  ReleaseAddresses(address, bytes);
  reservations_.erase(address);
}

DriverResult GhostStorage::Allocate(uint64_t /*granules*/,
                                    uint64_t* first_granule) {
  *first_granule = 0;
  return DriverResult::kSuccess;
}

void GhostStorage::Free(uint64_t /*first_granule*/, uint64_t /*granules*/) {}

DriverResult GhostStorage::SetAccess(const AccessRun& /*run*/,
                                     AccessFlags /*access*/) {
  return DriverResult::kSuccess;
}

void GhostStorage::RemoveAccess(DevicePtr /*address*/, uint64_t /*granules*/,
                                uint64_t /*mappings*/) {}

}  // namespace firn::cpu

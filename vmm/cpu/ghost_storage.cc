// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/ghost_storage.h"

#include <fcntl.h>
#include <unistd.h>

#include "firn/vmm/cpu/host_mapping.h"

namespace firn::cpu {

GhostStorage::~GhostStorage() {
  for (const auto& [address, bytes] : reservations_) {
    ReleaseAddresses(address, bytes);
  }
  for (const int file : files_) close(file);
}

Verdict GhostStorage::Reserve(uint64_t bytes, uint64_t alignment_bytes,
                              DevicePtr hint, DevicePtr* address,
                              StorageRegion** region) {
  if (!ReserveAddresses(bytes, alignment_bytes, hint, address)) {
    return Refuse(DriverResult::kOutOfMemory,
                  "the process must have so many addresses left");
  }
  reservations_.emplace(*address, bytes);
  *region = nullptr;
  return Allow();
}

void GhostStorage::Unreserve(DevicePtr address, uint64_t bytes) {
  ReleaseAddresses(address, bytes);
  reservations_.erase(address);
}

Verdict GhostStorage::Allocate(uint64_t /*granules*/, StoragePlace* place) {
  *place = StoragePlace();
  return Allow();
}

Verdict GhostStorage::AllocateShareable(const SharedMemoryInfo& /*info*/,
                                        StoragePlace* place) {
  *place = StoragePlace();
  return Allow();
}

Verdict GhostStorage::MakeFile(const SharedMemoryInfo& info,
                               StoragePlace* place) {
  return Own(CreateSharedMemoryFile(info), place);
}

Verdict GhostStorage::Adopt(int file, StoragePlace* place) {
  return Own(fcntl(file, F_DUPFD_CLOEXEC, 0), place);
}

void GhostStorage::Free(const StoragePlace& place, uint64_t /*granules*/) {
  if (files_.erase(place.file) != 0) close(place.file);
}

Verdict GhostStorage::Own(int file, StoragePlace* place) {
  if (file < 0) {
    return Refuse(DriverResult::kOutOfMemory,
                  "the process must have a file descriptor to spare");
  }
  files_.insert(file);
  *place = StoragePlace{file, 0};
  return Allow();
}

}  // namespace firn::cpu

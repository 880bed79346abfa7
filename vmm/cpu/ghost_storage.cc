// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/ghost_storage.h"

#include <utility>

#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"

namespace firn::cpu {
namespace {

KernelMappingBudget& Budget() { return KernelMappingBudget::OfProcess(); }

}  // namespace

GhostStorage::~GhostStorage() {
  for (const auto& [address, bytes] : reservations_) {
    ReleaseAddresses(address, bytes);
  }
  Budget().Remove(static_cast<int64_t>(reservations_.size()));
}

Verdict GhostStorage::Reserve(uint64_t bytes, uint64_t alignment_bytes,
                              DevicePtr hint, DevicePtr* address,
                              StorageRegion** region) {
  if (!Budget().TryAdd(1)) {
    return Refuse(DriverResult::kOutOfMemory, KernelMappingBudget::kRule);
  }
  if (!ReserveAddresses(bytes, alignment_bytes, hint, address)) {
    Budget().Remove(1);
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
  Budget().Remove(1);
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
  PrivateFile file;
  const Verdict made = CreateSharedMemoryFile(info, &file);
  if (made.ok()) *place = Keep(std::move(file));
  return made;
}

Verdict GhostStorage::Adopt(int file, StoragePlace* place) {
  *place = Keep(PrivateFile(file));
  return Allow();
}

void GhostStorage::Free(const StoragePlace& place, uint64_t /*granules*/) {
  files_.erase(place.file);
}

StoragePlace GhostStorage::Keep(PrivateFile file) {
  const int fd = file.fd();
  files_.emplace(fd, std::move(file));
  return StoragePlace{fd, 0};
}

}  // namespace firn::cpu

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/address_map.h"

#include <iterator>

namespace firn::cpu {
namespace {

int ShiftOf(uint64_t power_of_two) {
  int shift = 0;
  while ((uint64_t{1} << shift) < power_of_two) ++shift;
  return shift;
}

}  // namespace

const Slot ReservedRange::kEmptySlot;

ReservedRange::ReservedRange(DevicePtr base, uint64_t bytes, uint64_t granules,
                             uint64_t unmap_epoch, StorageRegion* region)
    : base_(base),
      bytes_(bytes),
      granules_(granules),
      region_(region),
      first_unmap_epoch_(unmap_epoch),
      last_unmap_epoch_(unmap_epoch),
      chunks_((granules + kChunkSlots - 1) / kChunkSlots) {}

AddressMap::AddressMap(uint64_t granularity_bytes)
    : granularity_bytes_(granularity_bytes),
      granularity_shift_(ShiftOf(granularity_bytes)),
      removed_unmaps_(std::make_unique<RemovedUnmaps>()) {}

void AddressMap::AddReservation(DevicePtr base, uint64_t bytes,
                                StorageRegion* region) {
  reservations_.emplace(base,
                        std::make_unique<ReservedRange>(
                            base, bytes, bytes >> granularity_shift_,
                            removed_unmaps_->LatestIn(base, bytes), region));
}

Verdict AddressMap::FindReservation(DevicePtr base, uint64_t bytes,
                                    ReservedRange** reservation) {
  const auto it = reservations_.find(base);
  if (it == reservations_.end()) {
    return RefuseValue("the address must be the start of a reservation");
  }
  if (it->second->bytes() != bytes) {
    return RefuseValue("the byte count must be that of the reservation");
  }
  *reservation = it->second.get();
  return Allow();
}

void AddressMap::RemoveReservation(ReservedRange* reservation) {
  removed_unmaps_->Add(reservation->base(), reservation->bytes(),
                       reservation->last_unmap_epoch());
  if (last_found_ == reservation) last_found_ = nullptr;
  reservations_.erase(reservation->base());
}

const Slot& AddressMap::Find(DevicePtr address) {
  const ReservedRange* const reservation = ReservationOf(address);
  if (reservation == nullptr) return ReservedRange::kEmptySlot;
  const uint64_t granule = GranuleOf(*reservation, address);
  return granule < reservation->granules() ? reservation->Get(granule)
                                           : ReservedRange::kEmptySlot;
}

ReservedRange* AddressMap::SeekReservation(DevicePtr address) {
  auto it = reservations_.upper_bound(address);
  if (it == reservations_.begin()) return nullptr;
  ReservedRange* const candidate = std::prev(it)->second.get();
  if (!candidate->Contains(address)) return nullptr;
  last_found_ = candidate;
  return candidate;
}

}  // namespace firn::cpu

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/address_map.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace firn::cpu {
namespace {

int ShiftOf(uint64_t power_of_two) {
  int shift = 0;
  while ((uint64_t{1} << shift) < power_of_two) ++shift;
  return shift;
}

bool Includes(AccessFlags have, AccessFlags need) {
  const auto needed = static_cast<int32_t>(need);
  return (static_cast<int32_t>(have) & needed) == needed;
}

}  // namespace

ReservedRange::ReservedRange(DevicePtr base, uint64_t bytes, uint64_t granules)
    : base_(base),
      bytes_(bytes),
      granules_(granules),
      chunks_((granules + kChunkSlots - 1) / kChunkSlots) {}

void ReservedRange::Set(uint64_t granule, Slot slot) {
  auto& chunk = chunks_[granule / kChunkSlots];
  if (chunk == nullptr) chunk = std::make_unique<Slot[]>(kChunkSlots);
  Slot& old = chunk[granule % kChunkSlots];
  if (slot.mapped() && !old.mapped()) ++mapped_granules_;
  if (!slot.mapped() && old.mapped()) --mapped_granules_;
  old = slot;
}

AddressMap::AddressMap(uint64_t granularity_bytes)
    : granularity_bytes_(granularity_bytes),
      granularity_shift_(ShiftOf(granularity_bytes)) {}

void AddressMap::AddReservation(DevicePtr base, uint64_t bytes) {
  reservations_.emplace(base, std::make_unique<ReservedRange>(
                                  base, bytes, bytes >> granularity_shift_));
}

DriverResult AddressMap::RemoveReservation(DevicePtr base, uint64_t bytes) {
  const auto it = reservations_.find(base);
  if (it == reservations_.end() || it->second->bytes() != bytes ||
      it->second->mapped_granules() != 0) {
    return DriverResult::kInvalidValue;
  }
  if (last_found_ == it->second.get()) last_found_ = nullptr;
  reservations_.erase(it);
  return DriverResult::kSuccess;
}

DriverResult AddressMap::FindUnmapped(DevicePtr address, uint64_t bytes,
                                      SlotRange* range) {
  if (!FindGranules(address, bytes, range)) return DriverResult::kInvalidValue;
  for (uint64_t i = range->first; i < range->end(); ++i) {
    if (range->Get(i).mapped()) return DriverResult::kInvalidValue;
  }
  return DriverResult::kSuccess;
}

DriverResult AddressMap::FindMappings(DevicePtr address, uint64_t bytes,
                                      SlotRange* range) {
  if (!FindGranules(address, bytes, range)) return DriverResult::kInvalidValue;
  // The first mapping must not begin before the range, nor the last end after.
  const bool cuts_first = range->Get(range->first).continues();
  const bool cuts_last = range->end() < range->reservation->granules() &&
                         range->Get(range->end()).continues();
  if (cuts_first || cuts_last) return DriverResult::kInvalidValue;
  for (uint64_t i = range->first; i < range->end(); ++i) {
    if (!range->Get(i).mapped()) return DriverResult::kInvalidValue;
  }
  return DriverResult::kSuccess;
}

Slot AddressMap::Find(DevicePtr address) {
  ReservedRange* const reservation = FindReservation(address);
  if (reservation == nullptr) return Slot();
  const uint64_t granule =
      (address - reservation->base()) >> granularity_shift_;
  return granule < reservation->granules() ? reservation->Get(granule) : Slot();
}

void AddressMap::Map(const SlotRange& range, uint32_t allocation_index) {
  for (uint64_t i = 0; i < range.count; ++i) {
    range.reservation->Set(range.first + i,
                           Slot(allocation_index, static_cast<uint32_t>(i)));
  }
}

void AddressMap::Unmap(const SlotRange& range) {
  for (uint64_t i = range.first; i < range.end(); ++i) {
    range.reservation->Set(i, Slot());
  }
}

void AddressMap::SetAccess(const SlotRange& range, AccessFlags access) {
  for (uint64_t i = range.first; i < range.end(); ++i) {
    Slot slot = range.Get(i);
    slot.set_access(access);
    range.reservation->Set(i, slot);
  }
}

bool AddressMap::Permits(DevicePtr address, uint64_t bytes,
                         AccessFlags access) {
  if (bytes > std::numeric_limits<DevicePtr>::max() - address) return false;
  const DevicePtr end = address + bytes;
  while (address < end) {
    const ReservedRange* const reservation = FindReservation(address);
    if (reservation == nullptr) return false;
    const uint64_t offset_bytes = address - reservation->base();
    const uint64_t last_bytes =
        std::min(end - reservation->base(), reservation->bytes()) - 1;
    for (uint64_t i = offset_bytes >> granularity_shift_;
         i <= last_bytes >> granularity_shift_; ++i) {
      if (i >= reservation->granules()) return false;
      const Slot slot = reservation->Get(i);
      if (!slot.mapped() || !Includes(slot.access(), access)) return false;
    }
    address = reservation->base() + reservation->bytes();
  }
  return true;
}

ReservedRange* AddressMap::FindReservation(DevicePtr address) {
  if (last_found_ != nullptr && address >= last_found_->base() &&
      address - last_found_->base() < last_found_->bytes()) {
    return last_found_;
  }
  auto it = reservations_.upper_bound(address);
  if (it == reservations_.begin()) return nullptr;
  ReservedRange* const candidate = std::prev(it)->second.get();
  if (address - candidate->base() >= candidate->bytes()) return nullptr;
  last_found_ = candidate;
  return candidate;
}

bool AddressMap::FindGranules(DevicePtr address, uint64_t bytes,
                              SlotRange* range) {
  const uint64_t offset_mask = granularity_bytes_ - 1;
  if (bytes == 0 || (address & offset_mask) != 0 ||
      (bytes & offset_mask) != 0) {
    return false;
  }
  ReservedRange* const reservation = FindReservation(address);
  if (reservation == nullptr) return false;
  const uint64_t first = (address - reservation->base()) >> granularity_shift_;
  const uint64_t count = bytes >> granularity_shift_;
  if (first >= reservation->granules() ||
      count > reservation->granules() - first) {
    return false;
  }
  *range = SlotRange{reservation, first, count};
  return true;
}

}  // namespace firn::cpu

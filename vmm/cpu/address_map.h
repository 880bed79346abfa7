// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The books on virtual memory: which addresses are reserved, what is mapped
// there, with which access; and the rules about ranges of addresses. Pure
// bookkeeping: it never touches memory and makes no system call.

#ifndef FIRN_VMM_CPU_ADDRESS_MAP_H_
#define FIRN_VMM_CPU_ADDRESS_MAP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/btree_map.h"
#include "firn/vmm/cpu/access_set.h"
#include "firn/vmm/cpu/removed_unmaps.h"
#include "firn/vmm/cpu/storage.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// What one granule of addresses shows: nothing, or granule `position()` of what
// the handle `handle_index()` names. A mapping is a row of slots, the first of
// which `begins()` it.
class Slot {
 public:
  // What a position can count.
  static constexpr uint64_t kMaxGranulesPerAllocation = uint64_t{1} << 31;

  bool mapped() const { return mapped_; }
  bool begins() const { return begins_; }
  // True in the middle of a mapping that began at a slot before.
  bool continues() const { return mapped_ && !begins_; }
  uint32_t handle_index() const { return handle_index_; }
  uint32_t position() const { return position_; }
  // Of what is mapped, or was mapped last.
  AccessSet access() const { return access_; }
  // When something was last unmapped here; 0 if never.
  uint64_t unmap_epoch() const { return unmap_epoch_; }

  void Map(uint32_t handle_index, uint32_t position, bool begins) {
    handle_index_ = handle_index;
    position_ = position;
    mapped_ = true;
    begins_ = begins;
    access_ = AccessSet();
  }
  void Unmap(uint64_t epoch) {
    mapped_ = false;
    begins_ = false;
    unmap_epoch_ = epoch;
  }
  void set_access(AccessSet access) { access_ = access; }
  // Makes what is mapped from here on a mapping of its own.
  void Begin() { begins_ = true; }

 private:
  uint64_t unmap_epoch_ = 0;
  uint32_t handle_index_ = 0;
  uint32_t position_ = 0;
  AccessSet access_;
  bool mapped_ = false;
  bool begins_ = false;
};
static_assert(sizeof(Slot) == 24, "a terabyte of addresses must stay cheap");

// One reservation. Its slots are made when first written to, so that what is
// reserved and not used costs nothing.
class ReservedRange {
 public:
  // `granules` counts whole granules: what is left over cannot be mapped.
  // Whatever was unmapped here before, was so at `unmap_epoch` at the latest.
  ReservedRange(DevicePtr base, uint64_t bytes, uint64_t granules,
                uint64_t unmap_epoch, StorageRegion* region);

  DevicePtr base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t granules() const { return granules_; }
  StorageRegion* region() const { return region_; }
  uint64_t mapped_granules() const { return mapped_granules_; }
  uint64_t first_unmap_epoch() const { return first_unmap_epoch_; }
  uint64_t last_unmap_epoch() const { return last_unmap_epoch_; }

  bool Contains(DevicePtr address) const {
    return address >= base_ && address - base_ < bytes_;
  }
  const Slot& Get(uint64_t granule) const {
    const auto& chunk = chunks_[granule / kChunkSlots];
    return chunk == nullptr ? kEmptySlot : chunk[granule % kChunkSlots];
  }

 private:
  friend class AddressMap;
  static constexpr uint64_t kChunkSlots = 1024;
  static const Slot kEmptySlot;

  Slot& At(uint64_t granule) {
    auto& chunk = chunks_[granule / kChunkSlots];
    if (chunk == nullptr) chunk = std::make_unique<Slot[]>(kChunkSlots);
    return chunk[granule % kChunkSlots];
  }

  const DevicePtr base_;
  const uint64_t bytes_;
  const uint64_t granules_;
  StorageRegion* const region_;
  const uint64_t first_unmap_epoch_;
  uint64_t last_unmap_epoch_;
  uint64_t mapped_granules_ = 0;
  std::vector<std::unique_ptr<Slot[]>> chunks_;
};

// Granules [first, first + count) of one reservation.
struct SlotRange {
  ReservedRange* reservation = nullptr;
  uint64_t first = 0;
  uint64_t count = 0;

  uint64_t end() const { return first + count; }
  const Slot& Get(uint64_t granule) const { return reservation->Get(granule); }
};

// Thread safety: none.
class AddressMap {
 public:
  // `granularity_bytes` is a power of two.
  explicit AddressMap(uint64_t granularity_bytes);

  void AddReservation(DevicePtr base, uint64_t bytes, StorageRegion* region);
  // Finds the reservation that is exactly this; refuses where there is none.
  Verdict FindReservation(DevicePtr base, uint64_t bytes,
                          ReservedRange** reservation);
  // The reservation that holds `address`, or nullptr.
  ReservedRange* ReservationOf(DevicePtr address) {
    if (last_found_ != nullptr && last_found_->Contains(address)) {
      return last_found_;
    }
    return SeekReservation(address);
  }
  void RemoveReservation(ReservedRange* reservation);

  // Finds a range of whole granules inside one reservation.
  Verdict FindGranules(DevicePtr address, uint64_t bytes, SlotRange* range);
  // The same, without a part of a mapping at its borders: what begins before it
  // or ends behind it.
  Verdict FindUncut(DevicePtr address, uint64_t bytes, SlotRange* range);
  // The same, without a hole: a row of whole mappings.
  Verdict FindMappings(DevicePtr address, uint64_t bytes, SlotRange* range);
  // The slot of any address; unmapped where nothing is reserved.
  const Slot& Find(DevicePtr address);

  // Shows the handle's granules from its first on in a range that shows
  // nothing.
  void Map(const SlotRange& range, uint32_t handle_index);
  // `epoch` only grows. The slots keep their access, for what it is worth.
  void Unmap(const SlotRange& range, uint64_t epoch);
  // Changes the access of what is mapped in the range.
  void ChangeAccess(const SlotRange& range, const AccessChange& change);
  // Makes two mappings of the one that goes on at `granule`.
  void Split(ReservedRange* reservation, uint64_t granule) {
    reservation->At(granule).Begin();
  }

  // The granule of `reservation` that `address`, which is in it, lies in. It
  // may be the one after the last.
  uint64_t GranuleOf(const ReservedRange& reservation,
                     DevicePtr address) const {
    return (address - reservation.base()) >> granularity_shift_;
  }
  DevicePtr AddressOf(const SlotRange& range, uint64_t granule) const {
    return range.reservation->base() + ToBytes(granule);
  }
  uint64_t ToBytes(uint64_t granules) const {
    return granules << granularity_shift_;
  }

 private:
  ReservedRange* SeekReservation(DevicePtr address);

  // The last one found, which is most often the next one sought.
  ReservedRange* last_found_ = nullptr;
  const uint64_t granularity_bytes_;
  const int granularity_shift_;
  // By base.
  absl::btree_map<DevicePtr, std::unique_ptr<ReservedRange>> reservations_;
  // Of reservations that are gone. What was unmapped elsewhere is no concern of
  // a new reservation: work may wait for addresses that are yet to be reserved.
  // Kept apart: a remap, which needs it not, is to find little else beside what
  // it needs.
  const std::unique_ptr<RemovedUnmaps> removed_unmaps_;
};

// Inline, for a remap has no more than some tens of nanoseconds for the books.

inline Verdict AddressMap::FindGranules(DevicePtr address, uint64_t bytes,
                                        SlotRange* range) {
  const uint64_t offset_mask = granularity_bytes_ - 1;
  if (bytes == 0) return RefuseValue("the byte count must not be 0");
  if (((address | bytes) & offset_mask) != 0) {
    return RefuseValue(
        "the address and the byte count must be multiples of the granularity");
  }
  ReservedRange* const reservation = ReservationOf(address);
  if (reservation == nullptr) {
    return RefuseValue("the address must be in a reservation");
  }
  const uint64_t first = GranuleOf(*reservation, address);
  const uint64_t count = bytes >> granularity_shift_;
  if (first >= reservation->granules() ||
      count > reservation->granules() - first) {
    return RefuseValue("the range must lie inside one reservation");
  }
  *range = SlotRange{reservation, first, count};
  return Allow();
}

inline Verdict AddressMap::FindUncut(DevicePtr address, uint64_t bytes,
                                     SlotRange* range) {
  const Verdict found = FindGranules(address, bytes, range);
  if (!found.ok()) return found;
  const bool cuts_first = range->Get(range->first).continues();
  const bool cuts_last = range->end() < range->reservation->granules() &&
                         range->Get(range->end()).continues();
  if (cuts_first || cuts_last) {
    return RefuseValue(
        "the range must consist of whole mappings, not of a part of one");
  }
  return Allow();
}

inline Verdict AddressMap::FindMappings(DevicePtr address, uint64_t bytes,
                                        SlotRange* range) {
  const Verdict found = FindUncut(address, bytes, range);
  if (!found.ok()) return found;
  for (uint64_t i = range->first; i < range->end(); ++i) {
    if (!range->Get(i).mapped())
      return RefuseValue(
          "the range must consist of whole mappings, without a hole");
  }
  return Allow();
}

inline void AddressMap::Map(const SlotRange& range, uint32_t handle_index) {
  for (uint64_t i = 0; i < range.count; ++i) {
    range.reservation->At(range.first + i)
        .Map(handle_index, static_cast<uint32_t>(i), /*begins=*/i == 0);
  }
  range.reservation->mapped_granules_ += range.count;
}

inline void AddressMap::Unmap(const SlotRange& range, uint64_t epoch) {
  for (uint64_t i = range.first; i < range.end(); ++i) {
    range.reservation->At(i).Unmap(epoch);
  }
  range.reservation->mapped_granules_ -= range.count;
  range.reservation->last_unmap_epoch_ = epoch;
}

inline void AddressMap::ChangeAccess(const SlotRange& range,
                                     const AccessChange& change) {
  for (uint64_t i = range.first; i < range.end(); ++i) {
    Slot& slot = range.reservation->At(i);
    if (slot.mapped()) slot.set_access(change.Apply(slot.access()));
  }
}

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_ADDRESS_MAP_H_

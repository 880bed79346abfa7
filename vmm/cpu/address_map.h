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
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// What one granule of addresses shows: nothing, or granule `position()` of the
// allocation `allocation_index`. A mapping is a row of slots at positions 0, 1,
// 2... up to the allocation's size: allocations are mapped whole.
class Slot {
 public:
  // What fits into the bits of a position.
  static constexpr uint64_t kMaxGranulesPerAllocation = uint64_t{1} << 29;

  Slot() = default;
  Slot(uint32_t allocation_index, uint32_t position)
      : allocation_index_(allocation_index),
        bits_((position << kPositionShift) | kMappedBit) {}

  bool mapped() const { return (bits_ & kMappedBit) != 0; }
  // True in the middle of a mapping that began at a slot before.
  bool continues() const { return bits_ >> kPositionShift != 0; }
  uint32_t allocation_index() const { return allocation_index_; }
  uint32_t position() const { return bits_ >> kPositionShift; }
  AccessFlags access() const {
    return static_cast<AccessFlags>(bits_ & kAccessBits);
  }
  void set_access(AccessFlags access) {
    bits_ = (bits_ & ~kAccessBits) | static_cast<uint32_t>(access);
  }

 private:
  static constexpr uint32_t kAccessBits = 3;
  static constexpr uint32_t kMappedBit = 4;
  static constexpr int kPositionShift = 3;

  uint32_t allocation_index_ = 0;
  uint32_t bits_ = 0;
};
static_assert(sizeof(Slot) == 8, "a terabyte of addresses must stay cheap");

// One reservation. Its slots are made when first written to, so that what is
// reserved and not used costs nothing.
class ReservedRange {
 public:
  // `granules` counts whole granules: what is left over cannot be mapped.
  ReservedRange(DevicePtr base, uint64_t bytes, uint64_t granules);

  DevicePtr base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t granules() const { return granules_; }
  uint64_t mapped_granules() const { return mapped_granules_; }

  Slot Get(uint64_t granule) const {
    const auto& chunk = chunks_[granule / kChunkSlots];
    return chunk == nullptr ? Slot() : chunk[granule % kChunkSlots];
  }
  void Set(uint64_t granule, Slot slot);

 private:
  static constexpr uint64_t kChunkSlots = 1024;

  const DevicePtr base_;
  const uint64_t bytes_;
  const uint64_t granules_;
  uint64_t mapped_granules_ = 0;
  std::vector<std::unique_ptr<Slot[]>> chunks_;
};

// Granules [first, first + count) of one reservation.
struct SlotRange {
  ReservedRange* reservation = nullptr;
  uint64_t first = 0;
  uint64_t count = 0;

  uint64_t end() const { return first + count; }
  Slot Get(uint64_t granule) const { return reservation->Get(granule); }
};

// Thread safety: none.
class AddressMap {
 public:
  // `granularity_bytes` is a power of two.
  explicit AddressMap(uint64_t granularity_bytes);

  void AddReservation(DevicePtr base, uint64_t bytes);
  // kInvalidValue unless exactly this was reserved and nothing is mapped in it.
  DriverResult RemoveReservation(DevicePtr base, uint64_t bytes);

  // Finds a range of whole granules inside one reservation with nothing mapped
  // in it; kInvalidValue where it is not so.
  DriverResult FindUnmapped(DevicePtr address, uint64_t bytes,
                            SlotRange* range);
  // Finds a range that consists of whole mappings, without a hole;
  // kInvalidValue where it does not.
  DriverResult FindMappings(DevicePtr address, uint64_t bytes,
                            SlotRange* range);
  // The slot of any address; unmapped where nothing is reserved.
  Slot Find(DevicePtr address);

  void Map(const SlotRange& range, uint32_t allocation_index);
  void Unmap(const SlotRange& range);
  void SetAccess(const SlotRange& range, AccessFlags access);

  // Whether every byte may be accessed so; the range may span mappings and
  // reservations. True for an empty range.
  bool Permits(DevicePtr address, uint64_t bytes, AccessFlags access);

  DevicePtr AddressOf(const SlotRange& range, uint64_t granule) const {
    return range.reservation->base() + (granule << granularity_shift_);
  }

 private:
  // The reservation that holds `address`, or nullptr.
  ReservedRange* FindReservation(DevicePtr address);
  // Granules that lie, as a whole, inside one reservation.
  bool FindGranules(DevicePtr address, uint64_t bytes, SlotRange* range);

  const uint64_t granularity_bytes_;
  const int granularity_shift_;
  // By base.
  absl::btree_map<DevicePtr, std::unique_ptr<ReservedRange>> reservations_;
  // The last one found, which is most often the next one sought.
  ReservedRange* last_found_ = nullptr;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_ADDRESS_MAP_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Addresses: owns one reservation of the driver and hands out ranges of its
// virtual granules. Never touches physical memory.

#ifndef FIRN_VMM_ADDRESS_SPACE_H_
#define FIRN_VMM_ADDRESS_SPACE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/units.h"
#include "firn/vmm/vg_range_set.h"

namespace firn {

// Thread safety: none; guarded by its owner.
class AddressSpace {
 public:
  // Reserves `vg_count` granules of addresses, or as many as the driver grants
  // when that is refused (halving, but never below `least_vg_count`).
  static absl::StatusOr<std::unique_ptr<AddressSpace>> Reserve(
      Driver* driver, uint64_t granule_bytes, uint32_t vg_count,
      uint32_t least_vg_count);
  // Gives the reservation back. Nothing in it may be mapped.
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  DevicePtr base() const { return base_; }
  uint64_t granule_bytes() const { return granule_bytes_; }
  uint32_t vg_count() const { return vg_count_; }
  DevicePtr AddressOf(VgIndex vg) const {
    return base_ + vg.value() * granule_bytes_;
  }
  // The virtual granule that holds `address`, if it is in the reservation.
  std::optional<VgIndex> VgOf(DevicePtr address) const {
    if (address < base_ || address - base_ >= vg_count_ * granule_bytes_) {
      return std::nullopt;
    }
    return VgIndex((address - base_) >> granule_shift_);
  }

  // The granules that nobody has taken.
  const VgRangeSet& free() const { return free_; }
  // Takes a range, all of which is free.
  void Take(VgRange range) { free_.Remove(range); }
  // Takes the highest free granule.
  std::optional<VgIndex> TakeHighest();
  void Give(VgRange range) { free_.Insert(range); }

 private:
  AddressSpace(Driver* driver, DevicePtr base, uint64_t granule_bytes,
               uint32_t vg_count);

  Driver* const driver_;
  const DevicePtr base_;
  const uint64_t granule_bytes_;
  const int granule_shift_;
  const uint32_t vg_count_;
  VgRangeSet free_;
};

}  // namespace firn

#endif  // FIRN_VMM_ADDRESS_SPACE_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may access a granule of addresses, and how: an access for each device and
// one for the host.

#ifndef FIRN_VMM_CPU_ACCESS_SET_H_
#define FIRN_VMM_CPU_ACCESS_SET_H_

#include <cstdint>

#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Locations by number: the devices' ordinals, then the host.
inline constexpr int kHostLocation = kMaxCpuDevices;

// Two bits a location: what AccessFlags has.
class AccessSet {
 public:
  AccessFlags of(int location) const {
    return static_cast<AccessFlags>((bits_ >> (2 * location)) & kOneLocation);
  }
  // What any location may do. The host's MMU knows no locations: this is what
  // it allows.
  AccessFlags any() const {
    const uint32_t read = (bits_ & kReadBits) != 0 ? 1 : 0;
    const uint32_t write = (bits_ & (kReadBits << 1)) != 0 ? 2 : 0;
    return static_cast<AccessFlags>(read | write);
  }

  bool operator==(const AccessSet& other) const { return bits_ == other.bits_; }

 private:
  friend class AccessChange;
  static constexpr uint32_t kOneLocation = 3;
  static constexpr uint32_t kReadBits = 0x15555;
  static_assert(kReadBits >> (2 * kHostLocation) == 1, "one bit a location");

  uint32_t bits_ = 0;
};

// A new access for some locations.
class AccessChange {
 public:
  // Gives every location what it has in `access`.
  static AccessChange To(AccessSet access) {
    AccessChange change;
    change.mask_ = ~uint32_t{0};
    change.bits_ = access.bits_;
    return change;
  }

  // False, and without effect, if `location` was to be given something else.
  bool Add(int location, AccessFlags access) {
    const uint32_t mask = AccessSet::kOneLocation << (2 * location);
    const uint32_t bits = static_cast<uint32_t>(access) << (2 * location);
    if ((mask_ & mask) != 0 && (bits_ & mask) != bits) return false;
    mask_ |= mask;
    bits_ |= bits;
    return true;
  }
  bool names(int location) const {
    return ((mask_ >> (2 * location)) & AccessSet::kOneLocation) != 0;
  }

  AccessSet Apply(AccessSet before) const {
    AccessSet after;
    after.bits_ = (before.bits_ & ~mask_) | bits_;
    return after;
  }

 private:
  // The bits that change, and what they become.
  uint32_t mask_ = 0;
  uint32_t bits_ = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_ACCESS_SET_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Strong types for the units that must not be mixed up: a virtual granule is
// not a physical one, an offset within a granule is not an address.

#ifndef FIRN_VMM_UNITS_H_
#define FIRN_VMM_UNITS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace firn {

// A 32-bit index that does not convert to another kind of index. The largest
// value means "none".
template <typename Tag>
class StrongIndex {
 public:
  constexpr StrongIndex() = default;
  constexpr explicit StrongIndex(size_t value)
      : value_(static_cast<uint32_t>(value)) {}

  constexpr uint32_t value() const { return value_; }
  constexpr bool is_none() const { return value_ == kNoneValue; }

  constexpr StrongIndex operator+(uint32_t count) const {
    return StrongIndex(value_ + count);
  }
  constexpr StrongIndex operator-(uint32_t count) const {
    return StrongIndex(value_ - count);
  }
  constexpr uint32_t operator-(StrongIndex other) const {
    return value_ - other.value_;
  }

  friend constexpr bool operator==(StrongIndex a, StrongIndex b) {
    return a.value_ == b.value_;
  }
  friend constexpr bool operator!=(StrongIndex a, StrongIndex b) {
    return a.value_ != b.value_;
  }
  friend constexpr bool operator<(StrongIndex a, StrongIndex b) {
    return a.value_ < b.value_;
  }
  template <typename H>
  friend H AbslHashValue(H h, StrongIndex index) {
    return H::combine(std::move(h), index.value_);
  }

 private:
  static constexpr uint32_t kNoneValue = std::numeric_limits<uint32_t>::max();
  uint32_t value_ = kNoneValue;
};

// A virtual granule (VG): one granule of the pool's reserved address space,
// counted from its start.
using VgIndex = StrongIndex<struct VgIndexTag>;

// A physical granule: one handle of the granule store.
using GranuleId = StrongIndex<struct GranuleIdTag>;

// Offsets and lengths inside a granule are counted in quanta: the least unit
// that is placed, copied and compared. Blocks start and end on a quantum, so
// that no two blocks ever share a sector of the device's caches.
inline constexpr uint32_t kQuantumBytes = 512;

constexpr uint64_t QuantaToBytes(uint64_t quanta) {
  return quanta * kQuantumBytes;
}
// Rounds up.
constexpr uint64_t BytesToQuanta(uint64_t bytes) {
  return bytes / kQuantumBytes + (bytes % kQuantumBytes != 0 ? 1 : 0);
}

// The half-open interval [lo, hi) of quanta inside a granule.
struct OffsetInterval {
  uint32_t lo = 0;
  uint32_t hi = 0;

  constexpr uint32_t quanta() const { return hi - lo; }
  friend constexpr bool operator==(OffsetInterval a, OffsetInterval b) {
    return a.lo == b.lo && a.hi == b.hi;
  }
};

// `count` virtual granules from `first` on.
struct VgRange {
  VgIndex first;
  uint32_t count = 0;

  constexpr VgIndex end() const { return first + count; }
  constexpr bool contains(VgIndex vg) const {
    return !(vg < first) && vg < end();
  }
  friend constexpr bool operator==(VgRange a, VgRange b) {
    return a.first == b.first && a.count == b.count;
  }
};

inline std::string ToString(VgRange range) {
  return absl::StrCat("[", range.first.value(), ", ", range.end().value(), ")");
}

}  // namespace firn

#endif  // FIRN_VMM_UNITS_H_

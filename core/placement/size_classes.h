// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which slot a small request gets, and how many slots a window holds. Pure
// arithmetic on quanta.

#ifndef FIRN_CORE_PLACEMENT_SIZE_CLASSES_H_
#define FIRN_CORE_PLACEMENT_SIZE_CLASSES_H_

#include <cstdint>
#include <vector>

namespace firn {

// Requests below an eighth of a granule share windows of equal slots; larger
// ones that do not fill a granule get a window of their own, of exactly their
// extent; the rest are large blocks.
//
// Slots are exact up to 16 quanta (8 KiB), then 8 sizes an octave, so that at
// most an eighth is lost. A window is a 32nd of a granule (64 KiB of 2 MiB), or
// four slots where those are larger, while a class has few of them; a quarter
// of a granule once it has many, or the four to eight slots that fill whole
// quarters best. A small window lets other classes share its granule. A large
// one costs fewer mappings, and blocks of a half or a quarter of a granule fit
// beside it without a rest that nothing fits into.
class SizeClasses {
 public:
  explicit SizeClasses(uint32_t quanta_per_granule);

  uint32_t count() const { return static_cast<uint32_t>(slot_quanta_.size()); }
  const std::vector<uint32_t>& all_slot_quanta() const { return slot_quanta_; }
  // Requests of so many quanta and more get a window of their own.
  uint32_t limit_quanta() const { return limit_quanta_; }

  // The class with the smallest slot that holds `quanta` (1 .. limit - 1) and
  // whose slots are multiples of `alignment_quanta`, a power of two below the
  // limit. `count()` if no slot below the limit does.
  uint32_t ClassOf(uint32_t quanta, uint32_t alignment_quanta) const;
  // The same for blocks that may start anywhere; `count()` for 0 quanta.
  uint32_t ClassOf(uint32_t quanta) const { return class_of_quanta_[quanta]; }
  uint32_t slot_quanta(uint32_t size_class) const {
    return slot_quanta_[size_class];
  }
  uint32_t slots_per_window(uint32_t size_class, bool grown) const;
  // Windows of a class start at multiples of this: the largest power of two
  // that divides the slot, at most a 32nd of a granule.
  uint32_t alignment_quanta(uint32_t size_class) const;

 private:
  uint32_t SlotsThatFillQuarters(uint32_t slot_quanta) const;

  uint32_t quanta_per_granule_;
  uint32_t limit_quanta_;
  std::vector<uint32_t> slot_quanta_;
  std::vector<uint16_t> class_of_quanta_;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_SIZE_CLASSES_H_

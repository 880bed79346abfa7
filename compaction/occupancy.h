// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A set of quanta of one granule as a bitmap.

#ifndef FIRN_COMPACTION_OCCUPANCY_H_
#define FIRN_COMPACTION_OCCUPANCY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/vmm/units.h"

namespace firn {

// Thread safety: none.
class Occupancy {
 public:
  Occupancy() = default;
  explicit Occupancy(uint32_t quanta) : words_((quanta + 63) / 64, 0) {}

  bool empty() const { return words_.empty(); }

  void Set(OffsetInterval extent) {
    ForEachWord(extent, [this](size_t i, uint64_t mask) {
      words_[i] |= mask;
      return true;
    });
  }
  void Clear(OffsetInterval extent) {
    ForEachWord(extent, [this](size_t i, uint64_t mask) {
      words_[i] &= ~mask;
      return true;
    });
  }
  bool AnyIn(OffsetInterval extent) const {
    return !ForEachWord(extent, [this](size_t i, uint64_t mask) {
      return (words_[i] & mask) == 0;
    });
  }
  bool AllIn(OffsetInterval extent) const {
    return ForEachWord(extent, [this](size_t i, uint64_t mask) {
      return (words_[i] & mask) == mask;
    });
  }
  // The first clear run of at least `quanta`, at or after `from` and ending at
  // or before `to`; lo == hi if there is none.
  OffsetInterval FindClearRun(uint32_t quanta, uint32_t from,
                              uint32_t to) const;
  // How many quanta in a row are clear: from `from` on, ending at or before
  // `to`; and ending at `to`.
  uint32_t ClearRunFrom(uint32_t from, uint32_t to) const;
  uint32_t ClearRunUpTo(uint32_t to) const;

 private:
  // Calls visit(word index, mask) for the words of `extent` until it returns
  // false; returns whether it never did.
  template <typename Visit>
  static bool ForEachWord(OffsetInterval extent, Visit visit) {
    if (extent.lo >= extent.hi) return true;
    size_t i = extent.lo / 64;
    const size_t last = (extent.hi - 1) / 64;
    uint64_t mask = ~uint64_t{0} << (extent.lo % 64);
    for (; i < last; ++i) {
      if (!visit(i, mask)) return false;
      mask = ~uint64_t{0};
    }
    mask &= ~uint64_t{0} >> (63 - (extent.hi - 1) % 64);
    return visit(last, mask);
  }

  std::vector<uint64_t> words_;
};

}  // namespace firn

#endif  // FIRN_COMPACTION_OCCUPANCY_H_

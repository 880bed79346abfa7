// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Granules ordered by their largest gap, for best-fit searches in constant
// time: 8 bins an octave, each a list.

#ifndef FIRN_CORE_PLACEMENT_GAP_INDEX_H_
#define FIRN_CORE_PLACEMENT_GAP_INDEX_H_

#include <array>
#include <cstdint>
#include <vector>

#include "firn/vmm/units.h"

namespace firn {

// Thread safety: none.
class GapIndex {
 public:
  GapIndex();

  bool contains(GranuleId granule) const {
    return granule.value() < nodes_.size() &&
           nodes_[granule.value()].bin != kNoBin;
  }
  // Puts a granule under its gap, wherever it was before; 0 takes it out.
  void Set(GranuleId granule, uint32_t gap_quanta);

  // Calls `accept(granule)` for granules with a gap of at least `quanta`,
  // smallest bins first, until it returns true or `tries` were refused.
  // Returns the granule accepted, or none. Granules of the bin that `quanta`
  // falls into may have a smaller gap: `accept` decides.
  template <typename Accept>
  GranuleId Find(uint32_t quanta, int tries, Accept accept) const {
    for (int bin = NextBin(BinOf(quanta)); bin != kNoBin;
         bin = NextBin(bin + 1)) {
      for (GranuleId granule = heads_[static_cast<size_t>(bin)];
           !granule.is_none(); granule = nodes_[granule.value()].next) {
        if (accept(granule)) return granule;
        if (--tries <= 0) return GranuleId();
      }
    }
    return GranuleId();
  }

  // A granule whose gap is `quanta` or more for certain: from the first bin
  // that holds no smaller ones. None if all such bins are empty.
  GranuleId FirstAtLeast(uint32_t quanta) const;

 private:
  static constexpr int kNoBin = -1;
  static constexpr int kBinCount = 192;

  struct Node {
    GranuleId next;
    GranuleId previous;
    int bin = kNoBin;
  };

  static int BinOf(uint32_t quanta);
  // The first bin at or after `bin` with a granule.
  int NextBin(int bin) const;
  void Unlink(GranuleId granule);

  std::array<GranuleId, kBinCount> heads_;
  std::array<uint64_t, kBinCount / 64> occupied_ = {};
  std::vector<Node> nodes_;  // by granule
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_GAP_INDEX_H_

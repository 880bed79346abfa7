// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The least number of granules for the live virtual granules of a small
// snapshot, by trying everything.

#ifndef FIRN_TESTS_SUPPORT_EXACT_COLOURING_H_
#define FIRN_TESTS_SUPPORT_EXACT_COLOURING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/compaction/snapshot.h"
#include "firn/vmm/units.h"

namespace firn::testing {

inline bool Conflict(const Snapshot& snapshot, const SnapshotVg& a,
                     const SnapshotVg& b) {
  for (const OffsetInterval& x : snapshot.ExtentsOf(a)) {
    for (const OffsetInterval& y : snapshot.ExtentsOf(b)) {
      if (x.lo < y.hi && y.lo < x.hi) return true;
    }
  }
  return false;
}

// What is pinned stays where it is: whether these virtual granules may end up
// on one granule in spite of it.
inline bool PinsAllow(const Snapshot& snapshot, size_t subset) {
  size_t granules_with_pins = 0;
  for (const SnapshotGranule& granule : snapshot.granules) {
    size_t pinned = 0;
    for (size_t i = 0; i < granule.vg_count; ++i) {
      const size_t vg = granule.first_vg + i;
      if (snapshot.vgs[vg].is_pinned) pinned |= size_t{1} << vg;
    }
    if ((subset & pinned) == 0) continue;
    if ((subset & pinned) != pinned) return false;
    ++granules_with_pins;
  }
  return granules_with_pins <= 1;
}

// Exponential: for at most about ten virtual granules. Full granules count.
inline uint32_t LeastGranules(const Snapshot& snapshot) {
  const size_t count = snapshot.vgs.size();
  const size_t subsets = size_t{1} << count;
  // Which subsets fit on one granule.
  std::vector<bool> fits(subsets, true);
  for (size_t subset = 1; subset < subsets; ++subset) {
    fits[subset] = PinsAllow(snapshot, subset);
    for (size_t a = 0; a < count && fits[subset]; ++a) {
      for (size_t b = a + 1; b < count && fits[subset]; ++b) {
        const bool both = (subset >> a & 1) != 0 && (subset >> b & 1) != 0;
        if (both && Conflict(snapshot, snapshot.vgs[a], snapshot.vgs[b])) {
          fits[subset] = false;
        }
      }
    }
  }
  std::vector<uint32_t> least(subsets, 0);
  for (size_t subset = 1; subset < subsets; ++subset) {
    least[subset] = static_cast<uint32_t>(count);
    for (size_t part = subset; part > 0; part = (part - 1) & subset) {
      if (fits[part]) {
        least[subset] = std::min(least[subset], 1 + least[subset ^ part]);
      }
    }
  }
  return least[subsets - 1] + snapshot.full_granules;
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_EXACT_COLOURING_H_

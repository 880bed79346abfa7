// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/lower_bounds.h"

#include <algorithm>
#include <vector>

#include "firn/compaction/packing_bound.h"

namespace firn {

LowerBounds ComputeLowerBounds(const Snapshot& snapshot) {
  LowerBounds bounds;
  uint64_t live_quanta = 0;
  // Starts minus ends at each offset; the running sum is the depth there.
  std::vector<int32_t> change(snapshot.quanta_per_granule + 1, 0);
  for (const SnapshotVg& vg : snapshot.vgs) {
    live_quanta += vg.live_quanta;
    if (uint64_t{vg.live_quanta} * 2 > snapshot.quanta_per_granule) {
      ++bounds.by_large;
    }
    for (const OffsetInterval& extent : snapshot.ExtentsOf(vg)) {
      ++change[extent.lo];
      --change[extent.hi];
    }
  }
  // By weight: what may be moved, each alone, and what is pinned on a granule.
  std::vector<uint32_t> weights(snapshot.quanta_per_granule + 1, 0);
  for (const SnapshotGranule& granule : snapshot.granules) {
    bool is_pinned = false;
    uint32_t pinned_quanta = 0;
    for (const SnapshotVg& vg : snapshot.VgsOf(granule)) {
      if (vg.is_pinned) {
        is_pinned = true;
        pinned_quanta += vg.live_quanta;
      } else {
        ++weights[vg.live_quanta];
      }
    }
    if (!is_pinned) continue;
    ++bounds.by_pins;
    ++weights[pinned_quanta];
  }
  for (const uint32_t quanta : snapshot.packed_vg_quanta) {
    live_quanta += quanta;
    if (uint64_t{quanta} * 2 > snapshot.quanta_per_granule) ++bounds.by_large;
    ++weights[quanta];
  }
  int32_t depth = 0;
  int32_t deepest = 0;
  for (const int32_t difference : change) {
    depth += difference;
    deepest = std::max(deepest, depth);
  }
  bounds.by_bytes =
      static_cast<uint32_t>((live_quanta + snapshot.quanta_per_granule - 1) /
                            snapshot.quanta_per_granule);
  // A packed granule adds one at every offset.
  bounds.by_depth = static_cast<uint32_t>(deepest) + snapshot.packed_granules;
  bounds.by_packing = PackingBound(weights);
  bounds.by_bytes += snapshot.full_granules;
  bounds.by_depth += snapshot.full_granules;
  bounds.by_large += snapshot.full_granules;
  bounds.by_pins += snapshot.full_granules;
  bounds.by_packing += snapshot.full_granules;
  return bounds;
}

}  // namespace firn

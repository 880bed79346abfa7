// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/lower_bounds.h"

#include <algorithm>
#include <vector>

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
  for (const SnapshotGranule& granule : snapshot.granules) {
    if (snapshot.IsPinned(granule)) ++bounds.by_pins;
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
  bounds.by_depth = static_cast<uint32_t>(deepest);
  bounds.by_bytes += snapshot.full_granules;
  bounds.by_depth += snapshot.full_granules;
  bounds.by_large += snapshot.full_granules;
  bounds.by_pins += snapshot.full_granules;
  return bounds;
}

}  // namespace firn

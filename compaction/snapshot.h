// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the planner and the bounds see of a pool: plain data, filled in by the
// pool, in units of granules and quanta.

#ifndef FIRN_COMPACTION_SNAPSHOT_H_
#define FIRN_COMPACTION_SNAPSHOT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "firn/vmm/units.h"

namespace firn {

// A virtual granule with live bytes: what is moved as one.
struct SnapshotVg {
  VgIndex vg;
  uint32_t live_quanta = 0;
  // Its live extents: Snapshot::extents[first_extent, first_extent + count).
  uint32_t first_extent = 0;
  uint32_t extent_count = 0;
  // A block of it is pinned: it stays where it is.
  bool is_pinned = false;
};

// A partly filled granule and the live virtual granules mapped to it.
struct SnapshotGranule {
  GranuleId granule;
  uint32_t live_quanta = 0;
  // Snapshot::vgs[first_vg, first_vg + vg_count).
  uint32_t first_vg = 0;
  uint32_t vg_count = 0;
  // Mappings of this granule, those without live bytes included.
  uint32_t mappings = 0;
};

// Invariant (I2): the extents of the virtual granules of one granule are
// disjoint; each extent list is sorted, and its extents do not touch.
struct Snapshot {
  uint32_t quanta_per_granule = 0;
  // Granules filled by a single virtual granule: they count for the bounds,
  // and can neither move into another granule nor take anything in.
  uint32_t full_granules = 0;
  // Granules that several virtual granules fill to the last quantum, nothing of
  // it pinned: likewise. Of each of these virtual granules the live quanta.
  uint32_t packed_granules = 0;
  std::vector<uint32_t> packed_vg_quanta;
  std::vector<SnapshotGranule> granules;
  std::vector<SnapshotVg> vgs;
  std::vector<OffsetInterval> extents;

  absl::Span<const SnapshotVg> VgsOf(const SnapshotGranule& granule) const {
    return absl::MakeConstSpan(vgs).subspan(granule.first_vg, granule.vg_count);
  }
  // Whether something on the granule is pinned: it cannot be emptied.
  bool IsPinned(const SnapshotGranule& granule) const {
    for (const SnapshotVg& vg : VgsOf(granule)) {
      if (vg.is_pinned) return true;
    }
    return false;
  }
  absl::Span<const OffsetInterval> ExtentsOf(const SnapshotVg& vg) const {
    return absl::MakeConstSpan(extents).subspan(vg.first_extent,
                                                vg.extent_count);
  }
};

}  // namespace firn

#endif  // FIRN_COMPACTION_SNAPSHOT_H_

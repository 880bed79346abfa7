// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/free_space.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "firn/vmm/units.h"

namespace firn {

uint64_t FreeSpace::HoleCount() const {
  uint64_t count = 0;
  for (const uint64_t of_length : holes) count += of_length;
  return count;
}

uint64_t FreeSpace::HoleQuanta() const {
  uint64_t quanta = 0;
  for (size_t length = 0; length < holes.size(); ++length) {
    quanta += holes[length] * length;
  }
  return quanta;
}

uint32_t FreeSpace::LargestHoleQuanta() const {
  for (size_t length = holes.size(); length-- > 1;) {
    if (holes[length] > 0) return static_cast<uint32_t>(length);
  }
  return 0;
}

uint64_t FreeSpace::FreeQuanta() const {
  return HoleQuanta() + free_granules * quanta_per_granule;
}

uint64_t FreeSpace::UsableQuanta(uint64_t quanta) const {
  if (ServableRequests(quanta) == 0) return 0;
  uint64_t usable = free_granules * quanta_per_granule;
  const uint64_t rest = quanta % quanta_per_granule;
  if (rest == 0) return usable;
  for (size_t length = rest; length < holes.size(); ++length) {
    usable += holes[length] * length;
  }
  return usable;
}

uint64_t FreeSpace::ServableRequests(uint64_t quanta) const {
  assert(quanta > 0 && quanta_per_granule > 0);
  const uint64_t whole = quanta / quanta_per_granule;
  const uint64_t rest = quanta % quanta_per_granule;
  if (rest == 0) return free_granules / whole;
  uint64_t rests_in_holes = 0;
  for (size_t length = rest; length < holes.size(); ++length) {
    rests_in_holes += holes[length] * (length / rest);
  }
  // The most n with n * whole granules for the whole parts and room for n rests
  // in the holes and the granules left:
  // n <= rests_in_holes + (free_granules - n * whole) * rests_in_granule.
  const uint64_t rests_in_granule = quanta_per_granule / rest;
  const uint64_t by_rests =
      (rests_in_holes + free_granules * rests_in_granule) /
      (1 + whole * rests_in_granule);
  return whole == 0 ? by_rests : std::min(by_rests, free_granules / whole);
}

FreeSpace FindFreeSpace(const Snapshot& snapshot, uint64_t free_granules) {
  FreeSpace space;
  space.quanta_per_granule = snapshot.quanta_per_granule;
  space.holes.assign(snapshot.quanta_per_granule, 0);
  space.free_granules = free_granules;
  const auto starts_before = [](OffsetInterval a, OffsetInterval b) {
    return a.lo < b.lo;
  };
  std::vector<OffsetInterval> live;
  for (const SnapshotGranule& granule : snapshot.granules) {
    live.clear();
    for (const SnapshotVg& vg : snapshot.VgsOf(granule)) {
      const auto extents = snapshot.ExtentsOf(vg);
      const auto merged = static_cast<std::ptrdiff_t>(live.size());
      live.insert(live.end(), extents.begin(), extents.end());
      std::inplace_merge(live.begin(), live.begin() + merged, live.end(),
                         starts_before);
    }
    if (live.empty()) continue;
    uint32_t end = 0;
    for (const OffsetInterval& extent : live) {
      if (extent.lo > end) ++space.holes[extent.lo - end];
      end = extent.hi;
    }
    if (end < snapshot.quanta_per_granule) {
      ++space.holes[snapshot.quanta_per_granule - end];
    }
  }
  return space;
}

}  // namespace firn

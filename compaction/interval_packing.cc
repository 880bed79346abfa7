// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/interval_packing.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>

namespace firn {
namespace {

bool IsEmpty(OffsetInterval interval) { return interval.lo >= interval.hi; }

// What PackHulls packs: the virtual granules on granules with nothing pinned.
struct LooseHulls {
  std::vector<uint32_t> vgs;
  std::vector<OffsetInterval> hulls;
  uint32_t pinned_granules = 0;
};

LooseHulls FindLooseHulls(const Snapshot& snapshot) {
  LooseHulls loose;
  for (const SnapshotGranule& granule : snapshot.granules) {
    if (snapshot.IsPinned(granule)) {
      ++loose.pinned_granules;
      continue;
    }
    for (uint32_t i = 0; i < granule.vg_count; ++i) {
      const uint32_t vg = granule.first_vg + i;
      loose.vgs.push_back(vg);
      loose.hulls.push_back(HullOf(snapshot, snapshot.vgs[vg]));
    }
  }
  return loose;
}

}  // namespace

uint32_t GreatestDepth(absl::Span<const OffsetInterval> intervals) {
  std::vector<uint32_t> starts;
  std::vector<uint32_t> ends;
  starts.reserve(intervals.size());
  ends.reserve(intervals.size());
  for (const OffsetInterval& interval : intervals) {
    if (IsEmpty(interval)) continue;
    starts.push_back(interval.lo);
    ends.push_back(interval.hi);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  size_t greatest = 0;
  size_t ended = 0;
  for (size_t started = 0; started < starts.size(); ++started) {
    while (ends[ended] <= starts[started]) ++ended;
    greatest = std::max(greatest, started + 1 - ended);
  }
  return static_cast<uint32_t>(greatest);
}

IntervalPacking PackIntervals(absl::Span<const OffsetInterval> intervals) {
  IntervalPacking packing;
  packing.granule_of.assign(intervals.size(), 0);
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < intervals.size(); ++i) {
    if (!IsEmpty(intervals[i])) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return intervals[a].lo != intervals[b].lo
               ? intervals[a].lo < intervals[b].lo
               : a < b;
  });
  // Where the last interval of each granule ends, and the granule; the first
  // to end on top.
  using LastEnd = std::pair<uint32_t, uint32_t>;
  std::priority_queue<LastEnd, std::vector<LastEnd>, std::greater<LastEnd>>
      last_ends;
  for (const uint32_t i : order) {
    uint32_t granule = packing.granules;
    if (!last_ends.empty() && last_ends.top().first <= intervals[i].lo) {
      granule = last_ends.top().second;
      last_ends.pop();
    } else {
      ++packing.granules;
    }
    packing.granule_of[i] = granule;
    last_ends.push({intervals[i].hi, granule});
  }
  return packing;
}

OffsetInterval HullOf(const Snapshot& snapshot, const SnapshotVg& vg) {
  const auto extents = snapshot.ExtentsOf(vg);
  OffsetInterval hull;
  if (extents.empty()) return hull;
  hull.lo = extents.front().lo;
  hull.hi = extents.back().hi;
  return hull;
}

IntervalPacking PackHulls(const Snapshot& snapshot) {
  const LooseHulls loose = FindLooseHulls(snapshot);
  const IntervalPacking packed = PackIntervals(loose.hulls);
  IntervalPacking packing;
  packing.granules = loose.pinned_granules + packed.granules;
  packing.granule_of.assign(snapshot.vgs.size(), 0);
  uint32_t pinned = 0;
  for (const SnapshotGranule& granule : snapshot.granules) {
    if (!snapshot.IsPinned(granule)) continue;
    for (uint32_t i = 0; i < granule.vg_count; ++i) {
      packing.granule_of[granule.first_vg + i] = pinned;
    }
    ++pinned;
  }
  for (size_t i = 0; i < loose.vgs.size(); ++i) {
    if (IsEmpty(loose.hulls[i])) continue;
    packing.granule_of[loose.vgs[i]] =
        loose.pinned_granules + packed.granule_of[i];
  }
  return packing;
}

uint32_t SufficientGranules(const Snapshot& snapshot) {
  const LooseHulls loose = FindLooseHulls(snapshot);
  return snapshot.full_granules + snapshot.packed_granules +
         std::min(static_cast<uint32_t>(snapshot.granules.size()),
                  loose.pinned_granules + GreatestDepth(loose.hulls));
}

}  // namespace firn

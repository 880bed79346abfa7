// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Virtual granules that are live in one interval of offsets each. Which of
// them can share is an interval graph then, and what is hard in general is
// easy: the least number of granules is the most intervals at one offset.
//
// Theorem. Intervals go into as few sets of disjoint ones as their greatest
// depth. Proof. Those at the deepest offset all overlap, so no fewer sets will
// do. Taken in order of their starts, each goes into a set whose last interval
// has ended, and into a new one only where all sets have an interval that is
// live at its start: as many as the depth there, this one not counted.

#ifndef FIRN_COMPACTION_INTERVAL_PACKING_H_
#define FIRN_COMPACTION_INTERVAL_PACKING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "firn/compaction/snapshot.h"
#include "firn/vmm/units.h"

namespace firn {

// The most intervals at one offset. Empty ones are nowhere. O(n log n).
uint32_t GreatestDepth(absl::Span<const OffsetInterval> intervals);

struct IntervalPacking {
  uint32_t granules = 0;
  // By interval, or by index into Snapshot::vgs; from 0 on. What is empty is
  // on 0, where it is in nobody's way.
  std::vector<uint32_t> granule_of;
};

// Into as few granules as there can be: their greatest depth. O(n log n).
IntervalPacking PackIntervals(absl::Span<const OffsetInterval> intervals);

// From the first live quantum of a virtual granule to its last.
OffsetInterval HullOf(const Snapshot& snapshot, const SnapshotVg& vg);

// A placement of any snapshot, by its hulls: granules with something pinned
// keep what they have and come first, in order; all else is packed as though
// live throughout its hull. Full granules are not in it. Needs as few granules
// as there can be where nothing is pinned and nothing has a hole; otherwise it
// may even need more than there are.
IntervalPacking PackHulls(const Snapshot& snapshot);

// So many granules are enough, full ones included: those of PackHulls, or as
// many as there are. An upper bound of the least number of granules, where
// ComputeLowerBounds gives lower ones; how many mappings a granule may have is
// not looked at.
uint32_t SufficientGranules(const Snapshot& snapshot);

}  // namespace firn

#endif  // FIRN_COMPACTION_INTERVAL_PACKING_H_

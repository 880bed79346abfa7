// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// In which pieces the memory is free that a pool could still hand out: holes
// within granules that are partly used, and whole granules. What indices of
// fragmentation are computed from.

#ifndef FIRN_COMPACTION_FREE_SPACE_H_
#define FIRN_COMPACTION_FREE_SPACE_H_

#include <cstdint>
#include <vector>

#include "firn/compaction/snapshot.h"

namespace firn {

// A hole is a longest run of quanta in which nothing is live. Free granules are
// all alike: any of them can be mapped behind any other, so that several are as
// good as one long run. A hole may also end such a run, or begin it: requests
// of more than a granule take whole granules and put what is left into a hole
// or a further granule.
struct FreeSpace {
  uint32_t quanta_per_granule = 0;
  // How many holes have so many quanta: by quanta, up to those of a granule,
  // exclusive.
  std::vector<uint64_t> holes;
  uint64_t free_granules = 0;

  uint64_t HoleCount() const;
  uint64_t HoleQuanta() const;
  uint32_t LargestHoleQuanta() const;
  // In holes and free granules.
  uint64_t FreeQuanta() const;
  // In pieces that a request of so many quanta could take: in free granules if
  // there are enough of them for one, and in holes that its last part fits in.
  // None if it cannot be served. `quanta` is at least 1.
  uint64_t UsableQuanta(uint64_t quanta) const;
  // How many requests of so many quanta could be served one after the other
  // with nothing moved. `quanta` is at least 1. Alignment is not looked at.
  uint64_t ServableRequests(uint64_t quanta) const;
};

// The holes of the partly filled granules, those at both ends of a granule
// included, beside so many free ones. Linear in the snapshot, times the virtual
// granules of a granule.
FreeSpace FindFreeSpace(const Snapshot& snapshot, uint64_t free_granules);

}  // namespace firn

#endif  // FIRN_COMPACTION_FREE_SPACE_H_

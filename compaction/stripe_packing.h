// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Virtual granules that are live in one of k aligned equal stripes of offsets
// each, at most one of a stripe on a granule, and are moved as though they
// filled it. What is best is known then, for every number of granules freed.
//
// Theorem. Let H be the most virtual granules of one stripe, P the number of
// granules with something pinned, and n that of all.
//  (a) The least number of granules is max(H, P). Proof. Two of one stripe
//      cannot share, and what is pinned stays, so no fewer will do. With the
//      pinned ones in place, max(H, P) granules have room in each stripe for
//      all others of it.
//  (b) For every m <= n - max(H, P), freeing m granules copies the least if
//      they are the m with the fewest live quanta of those with nothing pinned.
//      Proof. Let T be any m of them, with t(c) virtual granules of stripe c.
//      Of the N(c) in all, N(c) - t(c) are on the other n - m granules, which
//      leaves n - m - N(c) + t(c) >= t(c) places in this stripe: all that is on
//      T fits, and nothing else need move. Whoever empties T copies no less
//      than what is live on it.
// The cheapest sets are prefixes of one order: stopping early loses nothing,
// and no search is needed. MakePlan comes to the same.

#ifndef FIRN_COMPACTION_STRIPE_PACKING_H_
#define FIRN_COMPACTION_STRIPE_PACKING_H_

#include <cstdint>
#include <vector>

#include "firn/compaction/snapshot.h"

namespace firn {

// Which stripes the virtual granules with live quanta are in.
struct StripeCensus {
  std::vector<uint32_t> vgs_by_stripe;
  // In more than one stripe, and so in none of the above.
  uint32_t crossing_vgs = 0;
  // Beside an earlier one of the same stripe on the same granule.
  uint32_t doubled_vgs = 0;
  uint32_t pinned_granules = 0;

  // Whether the theorem speaks of them.
  bool is_striped() const { return crossing_vgs == 0 && doubled_vgs == 0; }
  // H.
  uint32_t most() const;
};

// `stripes` must divide the quanta of a granule. Linear in the snapshot.
StripeCensus CountStripes(const Snapshot& snapshot, uint32_t stripes);

// By (a), full granules included.
uint32_t LeastGranulesOfStripes(const Snapshot& snapshot,
                                const StripeCensus& census);

// A placement on as many granules, by index into Snapshot::vgs; from 0 on, full
// granules not counted. Granules with something pinned come first, in order.
// Only for what is striped.
std::vector<uint32_t> PackStripes(const Snapshot& snapshot, uint32_t stripes);

// Granules with nothing pinned, as indices into Snapshot::granules, in the
// order in which freeing them is cheapest. O(n log n).
std::vector<uint32_t> SparsestFirst(const Snapshot& snapshot);

// By (b): element m is the fewest quanta that must be copied to free m
// granules; the last m is the most that can be freed.
std::vector<uint64_t> LeastCopiedQuanta(const Snapshot& snapshot,
                                        const StripeCensus& census);

}  // namespace firn

#endif  // FIRN_COMPACTION_STRIPE_PACKING_H_

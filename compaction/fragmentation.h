// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much memory is lost to what kind of fragmentation, as figures: shares are
// in [0, 1], and 0 is best, but for Utilization.

#ifndef FIRN_COMPACTION_FRAGMENTATION_H_
#define FIRN_COMPACTION_FRAGMENTATION_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "firn/compaction/free_space.h"
#include "firn/compaction/lower_bounds.h"
#include "firn/compaction/planner.h"
#include "firn/compaction/snapshot.h"

namespace firn {

struct MemoryUse {
  uint64_t requested_bytes = 0;  // handed out: live
  uint64_t allocated_bytes = 0;  // of the blocks that hold them, rounded up
  uint64_t used_bytes = 0;       // of the granules with any of them

  // 1 - requested / allocated: lost by rounding sizes up. 0 for no blocks.
  double InternalFragmentation() const;
  // requested / used. 1 for no granules: none is wasted.
  double Utilization() const;
  // used - requested: internal fragmentation and holes.
  uint64_t WasteBytes() const;
};

// 1 - largest / total, of the holes within granules: what no request of up to a
// granule could take at once. Free granules are not in it, as any request can
// take any of them. 0 without holes.
double ExternalFragmentation(const FreeSpace& space);

// The share of free memory in pieces that no request of so many quanta can
// take: 1 - UsableQuanta / FreeQuanta. Up to a granule it grows with `quanta`.
// 1 with nothing free, as Linux has it. (unusable_free_index, Linux
// mm/vmstat.c.)
double UnusableShare(const FreeSpace& space, uint64_t quanta);

// The share of free memory left over once as many requests of so many quanta as
// fit were served: 1 - ServableRequests * quanta / FreeQuanta. 0 with nothing
// free, otherwise never below UnusableShare. Up to a granule, a multiple of a
// size never has less than the size. (extfrag_for_order, Linux mm/vmstat.c,
// where blocks and sizes are powers of two, so that both shares are the same.)
double ExtfragShare(const FreeSpace& space, uint64_t quanta);

// Why a request of so many quanta fails: towards 0 for lack of memory, towards
// 1 for fragmentation. None if it would not fail. With B free blocks of F
// quanta in all and R quanta wanted, 1 - (1 + F / R) / B; 0 with nothing free,
// and no less. (__fragmentation_index, Linux mm/vmstat.c, in thousandths and
// with -1000 for none.)
//
// The formula is made for a buddy system, whose blocks are at most half as long
// as what they are too short for. So R is the size rounded up to a power of
// two, and each hole counts as the blocks of powers of two that add up to it;
// or else a thousand holes of nearly the size would pass for a lack of memory.
//
// It does not ask whether F is enough: Linux looks at its watermark first, and
// who decides by this index must compare FreeQuanta first.
std::optional<double> FragmentationIndex(const FreeSpace& space,
                                         uint64_t quanta);

// Used granules above the greatest of the lower bounds: the most that any plan
// could free. The bounds must be those of the snapshot.
uint32_t CompactionPotential(const Snapshot& snapshot,
                             const LowerBounds& bounds);

// What a plan frees of that potential, in [0, 1]; 1 with nothing to free.
double PlannedShareOfPotential(const Plan& plan, uint32_t potential_granules);

// stripes * H / N with H the most virtual granules of one stripe and N those of
// all: by what factor the fullest stripe, and with it the least number of
// granules, exceeds what it would be were all stripes even. From 1 to the
// number of stripes; 1 for no virtual granules.
double ColourSkew(absl::Span<const uint32_t> vgs_by_stripe);

}  // namespace firn

#endif  // FIRN_COMPACTION_FRAGMENTATION_H_

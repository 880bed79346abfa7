// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Slabs: runs of granules, each cut into blocks of one size class with a bitmap
// of the free ones. The heap places blocks in slabs; where their memory comes
// from and where it goes when they are empty is up to its owner.

#ifndef FIRN_BENCH_POLICIES_SLAB_HEAP_H_
#define FIRN_BENCH_POLICIES_SLAB_HEAP_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "bench/policies/policy_options.h"
#include "firn/core/placement/lowest_bit_set.h"
#include "firn/core/placement/slab_classes.h"

namespace firn::bench {

struct SlabRun {
  uint64_t address = 0;  // a multiple of the granule
  uint64_t granules = 0;
};

// A block is placed in the lowest slab of its class that has a free slot, there
// in the lowest slot; with compaction in the background in the fullest slab (of
// equals the lowest), which leaves less to move. (Measured on three days of KV
// traffic: without moves the lowest utilises 0.5 to 1 % more, with them the
// fullest copies 4 to 5 % less.) With each block the owner keeps a tag, a
// number other than 0. Thread safety: none.
class SlabHeap {
 public:
  struct FreedBlock {
    uint64_t tag = 0;  // 0: no block starts there
    // The slab, if that was its last block: it is the heap's no longer.
    SlabRun emptied;
  };
  struct MovedBlock {
    uint64_t tag = 0;
    uint64_t address = 0;  // the new one
  };
  // What one class has.
  struct Occupancy {
    uint64_t block_bytes = 0;
    uint64_t slots_per_slab = 0;
    uint64_t free_slots = 0;
    // Live blocks of the slab that has the fewest, of those with free slots;
    // known unless compaction is off.
    uint64_t least_live_slots = 0;

    // Whether the other slabs can take all blocks of one.
    bool CanEmptyASlab() const {
      return slots_per_slab != 0 && free_slots >= slots_per_slab;
    }
  };

  SlabHeap(uint64_t granule_bytes, CompactionMode moves)
      : granule_bytes_(granule_bytes), moves_(moves) {}

  bool HasFreeSlot(SlabClass size_class) const;
  // REQUIRES: the slabs of a class all have the same length.
  void AddSlab(SlabClass size_class, SlabRun run);
  // The address of a new block. REQUIRES: HasFreeSlot(size_class).
  uint64_t Place(SlabClass size_class, uint64_t tag);
  FreedBlock Free(uint64_t address);

  // Classes are numbered from 0 to classes() - 1.
  uint32_t classes() const { return static_cast<uint32_t>(classes_.size()); }
  Occupancy GetOccupancy(uint32_t class_index) const;
  // Moves the blocks of the sparsest slab of a class (of equals the highest)
  // to the fullest others and returns the slab, then the heap's no longer;
  // appends where the blocks are now. REQUIRES: compaction is not off, and
  // GetOccupancy(class_index).CanEmptyASlab().
  SlabRun EmptySparsestSlab(uint32_t class_index,
                            std::vector<MovedBlock>* moved);

 private:
  struct Slab {
    SlabRun run;
    SlabClass size_class;
    LowestBitSet free_slots;
    std::vector<uint64_t> tags;  // by slot, 0 where no block is live
  };
  struct Class {
    uint64_t block_bytes = 0;
    uint64_t slots_per_slab = 0;
    uint64_t free_slots = 0;
    // The slabs with a free slot, by the number of their first granule.
    LowestBitSet open_slabs;
    // The same as (free slots, number of the first granule), unless nothing
    // ever moves.
    absl::btree_set<std::pair<uint64_t, uint64_t>> by_free_slots;
  };

  Slab& SlabAtGranule(uint64_t granule) {
    return slabs_[slab_at_granule_[granule] - 1];
  }
  uint64_t FirstGranule(const Slab& slab) const {
    return slab.run.address / granule_bytes_;
  }
  // Takes note of a slab's free slots after a change.
  void Refile(const Slab& slab, uint64_t free_slots_before);
  uint64_t PlaceIn(Slab* slab, uint64_t tag);
  // REQUIRES: its free slots are filed as 0.
  SlabRun Remove(const Slab& slab);

  const uint64_t granule_bytes_;
  const CompactionMode moves_;
  std::vector<Slab> slabs_;
  std::vector<uint32_t> unused_slabs_;
  // By granule number: 1 + the index of its slab, 0 where there is none.
  std::vector<uint32_t> slab_at_granule_;
  std::vector<Class> classes_;  // by index of the size class
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_SLAB_HEAP_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Slabs as a placement: runs of granules, each cut into slots of one size class
// with a bitmap of the free ones.

#ifndef FIRN_CORE_PLACEMENT_SLAB_PLACEMENT_H_
#define FIRN_CORE_PLACEMENT_SLAB_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "firn/core/placement/first_fit_ranges.h"
#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/lowest_bit_set.h"
#include "firn/core/placement/placement.h"
#include "firn/core/placement/slab_classes.h"

namespace firn {

// A block of up to half a granule gets a slot, the lowest of the lowest slab of
// its class that has a free one; larger ones, and those aligned to more than
// that, whole granules. Slabs, of SlabGranules() granules each, and such blocks
// are cut from runs of granules by address-ordered first fit. A slab without a
// live block is a free run again, for any class.
//
// A slab from which a granule is withdrawn has lost it for good: the slots that
// touch it are dead. What it has left becomes free with its last live block.
class SlabPlacement : public Placement {
 public:
  explicit SlabPlacement(uint64_t granule_bytes)
      : granule_bytes_(granule_bytes) {}

  absl::string_view name() const override;
  Growth GrowthFor(uint64_t bytes, uint64_t alignment_bytes) const override;
  void Give(FreeRange granules, uint64_t wanted_bytes) override;
  std::optional<FreeRange> Take(uint64_t bytes,
                                uint64_t alignment_bytes) override;
  void Free(FreeRange extent) override;
  void Withdraw(FreeRange granules) override;

 private:
  struct Slab {
    uint64_t first_granule = 0;
    uint32_t granules = 0;
    // Bit i: the i-th granule was not withdrawn since the slab was made.
    uint32_t own_granules = 0;
    SlabClass size_class;
    LowestBitSet free_slots;
    uint64_t live_slots = 0;

    // Names the slab among all: no granule is two slabs' own. REQUIRES: one is
    // its own; so it is wherever a slot is free.
    uint64_t LowestOwnGranule() const;
  };

  // The least class whose slots hold `bytes` and all start at multiples of the
  // alignment; nothing if the block gets granules.
  std::optional<SlabClass> ClassFor(uint64_t bytes,
                                    uint64_t alignment_bytes) const;
  uint64_t SlabBytes(SlabClass size_class) const;
  std::optional<FreeRange> TakeSlot(SlabClass size_class);
  bool AddSlab(SlabClass size_class);
  // The slab's granules that are its own are free runs.
  void RemoveSlab(Slab* slab);
  void FreeSlot(FreeRange extent);
  // A granule that lies within the slab is its own no more.
  void Shrink(uint64_t granule, Slab* slab);
  // Whether all granules that the slot touches are the slab's own.
  bool IsOwn(const Slab& slab, uint64_t slot) const;

  const uint64_t granule_bytes_;
  FreeRangeTree own_;  // all that was given and not withdrawn
  FirstFitRanges runs_;
  FreeRange given_last_;
  std::vector<Slab> slabs_;
  std::vector<uint32_t> unused_slabs_;
  // By number: 1 + the index of the slab that was last made there, as long as
  // there is that slab, be the granule its own or lost; else 0.
  std::vector<uint32_t> slab_at_granule_;
  // By index of the size class: the slabs with a free slot, by their lowest own
  // granules.
  std::vector<LowestBitSet> open_slabs_;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_SLAB_PLACEMENT_H_

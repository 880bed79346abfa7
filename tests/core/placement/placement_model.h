// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A placement beside a map of what it must have done, quantum by quantum.

#ifndef FIRN_TESTS_CORE_PLACEMENT_PLACEMENT_MODEL_H_
#define FIRN_TESTS_CORE_PLACEMENT_PLACEMENT_MODEL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/placement.h"

namespace firn::testing {

// Makes the calls of an owner and adds a failure for every answer that is
// wrong whatever the structure. Thread safety: none.
class PlacementModel {
 public:
  PlacementModel(uint64_t granule_bytes, uint64_t granules,
                 Placement* placement);

  // Runs of granules from `granule` on, of at most `most`, that are neither the
  // structure's nor hold a block; 0 if the first is one or does.
  uint64_t GivableFrom(uint64_t granule, uint64_t most) const;
  // The same of granules that are the structure's.
  uint64_t OwnFrom(uint64_t granule, uint64_t most) const;

  void Give(uint64_t granule, uint64_t count, uint64_t wanted_bytes);
  void Withdraw(uint64_t granule, uint64_t count);
  bool Take(uint64_t bytes, uint64_t alignment_bytes);
  // Gives what the structure asks for, if there are such granules, and takes
  // the block, which must succeed; false if there are none.
  bool GrowAndTake(uint64_t bytes, uint64_t alignment_bytes);
  // The block at that place of a list of all; frees it.
  void Free(uint64_t block);
  void FreeAll();

  uint64_t blocks() const { return blocks_.size(); }
  uint64_t granules() const { return is_own_.size(); }
  // The structure's granules that were got for sizes from `least` to `most`.
  uint64_t OwnGranulesFor(uint64_t least, uint64_t most) const;
  // The longest free range that starts at a multiple of `alignment_bytes`.
  uint64_t LongestFreeBytes(uint64_t alignment_bytes) const;
  // Takes blocks of so many bytes until there is no room for one more; returns
  // how many bytes their extents have.
  uint64_t Drain(uint64_t bytes);

 private:
  bool IsFree(uint64_t quantum) const {
    return !is_taken_[quantum] && is_own_[quantum / granule_quanta_];
  }
  bool HoldsABlock(uint64_t granule) const;
  void CheckExtent(FreeRange extent, uint64_t bytes, uint64_t alignment_bytes);

  const uint64_t granule_bytes_;
  const uint64_t granule_quanta_;
  Placement* const placement_;
  std::vector<bool> is_own_;            // by granule
  std::vector<uint64_t> wanted_bytes_;  // by granule
  std::vector<bool> is_taken_;          // by quantum
  std::vector<FreeRange> blocks_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_PLACEMENT_PLACEMENT_MODEL_H_

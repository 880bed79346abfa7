// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Binary buddies as a placement.

#ifndef FIRN_CORE_PLACEMENT_BUDDY_PLACEMENT_H_
#define FIRN_CORE_PLACEMENT_BUDDY_PLACEMENT_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "firn/core/placement/buddy_arena.h"
#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/placement.h"

namespace firn {

// Extents are powers of two, each at a multiple of its size, so that a block
// above a granule needs as many granules, aligned like that. What is given may
// be any run: it is divided into such blocks, and they join with all buddies
// that are free, whenever those were given.
class BuddyPlacement : public Placement {
 public:
  explicit BuddyPlacement(uint64_t granule_bytes)
      : granule_bytes_(granule_bytes) {}

  absl::string_view name() const override;
  Growth GrowthFor(uint64_t bytes, uint64_t alignment_bytes) const override;
  void Give(FreeRange granules, uint64_t wanted_bytes) override;
  std::optional<FreeRange> Take(uint64_t bytes,
                                uint64_t alignment_bytes) override;
  void Free(FreeRange extent) override;
  void Withdraw(FreeRange granules) override;

 private:
  // The address of a block aligned to more than its size.
  std::optional<uint64_t> TakeAligned(uint32_t order, uint64_t alignment_bytes);

  const uint64_t granule_bytes_;
  FreeRangeTree own_;  // all that was given and not withdrawn
  BuddyArena free_;
  FreeRange given_last_;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_BUDDY_PLACEMENT_H_

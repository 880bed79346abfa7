// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Room at an aligned start in ranges that are indexed by their length alone.

#ifndef FIRN_CORE_PLACEMENT_ALIGNED_TAKE_H_
#define FIRN_CORE_PLACEMENT_ALIGNED_TAKE_H_

#include <cstdint>
#include <optional>

#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/size_rounding.h"

namespace firn {

// The start of `bytes` taken out of `ranges`, FirstFitRanges or BestFitRanges,
// at a multiple of `alignment_bytes`; what lies before it stays free. Tried in
// this order: the range that a block of any alignment would get; the one that
// has room whatever its start; and `given_last`, which was made free for such a
// request and may be hidden within a longer range by now. So it can fail where
// another range has room by chance, but never costs more than three searches.
// All ranges start and end at multiples of `unit_bytes`, a power of two.
template <typename Ranges>
std::optional<uint64_t> TakeAligned(uint64_t bytes, uint64_t alignment_bytes,
                                    uint64_t unit_bytes, FreeRange given_last,
                                    Ranges* ranges) {
  if (alignment_bytes <= unit_bytes) return ranges->Take(bytes);
  for (const uint64_t find_bytes :
       {bytes, bytes + alignment_bytes - unit_bytes}) {
    const std::optional<FreeRange> found = ranges->Find(find_bytes);
    if (!found.has_value()) continue;
    const FreeRange taken{RoundUp(found->start, alignment_bytes), bytes};
    if (taken.end() > found->end()) continue;
    ranges->TakeAt(taken);
    return taken.start;
  }
  const FreeRange taken{RoundUp(given_last.start, alignment_bytes), bytes};
  if (!ranges->TakeAt(taken)) return std::nullopt;
  return taken.start;
}

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_ALIGNED_TAKE_H_

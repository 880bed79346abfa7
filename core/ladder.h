// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rungs that an allocation climbs before it fails.

#ifndef FIRN_CORE_LADDER_H_
#define FIRN_CORE_LADDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace firn {

// In the order in which they are climbed, cheapest first. Each that changed
// something is followed by another attempt.
enum class Rung : uint8_t {
  kParkedBlocks,    // freed blocks that threads keep, or that wait to be taken
                    // again as they are
  kPendingFrees,    // freed blocks whose streams are not done: waits for them
  kOtherArenas,     // granules that blocks of other domains, classes and
                    // lifetimes have left
  kUnmapping,       // addresses and mappings of granules that hold nothing, so
                    // that free granules can be mapped elsewhere
  kMerging,         // live memory moves together (move_on_failure)
  kScatteredHoles,  // holes between live blocks
  kOpenedHole,      // one that is made by moving what is in its way
                    // (move_on_failure)
  kSpill,           // blocks that may be (Pool::AllowSpill) go to host memory
                    // (move_on_failure, host_spill_limit_bytes)
  kOtherLifetimes,  // among blocks of the same domain and class that are
                    // expected to live longer, or not as long
  kCallbacks,       // reclaim callbacks (core/reclaim_callback.h)
};
inline constexpr size_t kRungCount = 10;

// "parked_blocks" and so on: literals.
absl::string_view RungName(Rung rung);

// Of one rung, since the pool's creation.
struct RungStats {
  std::string name;      // RungName
  uint64_t tried = 0;    // allocations that came to it
  uint64_t changed = 0;  // of these, for which it changed something
  uint64_t rescued = 0;  // of these, which succeeded right after it
  // Bytes of granules that became free for the request. Holes are not in it.
  // Of kCallbacks: by how much the live bytes fell.
  uint64_t recovered_bytes = 0;
};

// By rung.
using LadderStats = std::array<RungStats, kRungCount>;

}  // namespace firn

#endif  // FIRN_CORE_LADDER_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The structures that can decide which free bytes of a pool a block gets.

#ifndef FIRN_CORE_PLACEMENT_KIND_H_
#define FIRN_CORE_PLACEMENT_KIND_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace firn {

enum class PlacementKind : uint8_t {
  kFirn,      // windows and runs of granules: made for what moves
  kFreeList,  // one list of free ranges, the lowest that is long enough
  kBestFit,   // the same, the shortest that is long enough
  kSizeHash,  // freed blocks by their exact size; else as kBestFit
  kSlab,      // slabs of one size class each; runs of granules above
  kBuddy,     // binary buddies
  kTiered,    // by size: small blocks, buddies, runs of granules
};

// "firn", "free_list", "best_fit", "size_hash", "slab", "buddy", "tiered".
absl::string_view PlacementKindName(PlacementKind kind);
// The kind of that name; nothing if none has it.
std::optional<PlacementKind> PlacementKindFromName(absl::string_view name);

// Which sizes the tiers of PlacementKind::kTiered are for.
struct TierBounds {
  // What places the blocks below small_bytes.
  enum class Small : uint8_t { kSlab, kSizeHash };

  // Smaller blocks are of the lowest tier: a multiple of 512, and no more than
  // large_bytes.
  uint64_t small_bytes = uint64_t{1} << 20;

  // Larger blocks get runs of granules of their own, all others buddies: a
  // power of two, from one granule to 64 TiB.
  uint64_t large_bytes = uint64_t{256} << 20;

  Small small = Small::kSlab;

  // OkStatus, or InvalidArgument naming the field, its value and what would be
  // right.
  absl::Status Validate(uint64_t granule_bytes) const;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_KIND_H_

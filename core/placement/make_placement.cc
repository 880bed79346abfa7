// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/make_placement.h"

#include "firn/core/placement/buddy_placement.h"
#include "firn/core/placement/range_placement.h"
#include "firn/core/placement/size_hash_placement.h"
#include "firn/core/placement/slab_placement.h"
#include "firn/core/placement/tiered_placement.h"

namespace firn {

std::unique_ptr<Placement> MakePlacement(PlacementKind kind,
                                         const TierBounds& bounds,
                                         uint64_t granule_bytes) {
  switch (kind) {
    case PlacementKind::kFirn:
      break;
    case PlacementKind::kFreeList:
      return std::make_unique<FreeListPlacement>(granule_bytes);
    case PlacementKind::kBestFit:
      return std::make_unique<BestFitPlacement>(granule_bytes);
    case PlacementKind::kSizeHash:
      return std::make_unique<SizeHashPlacement>(granule_bytes);
    case PlacementKind::kSlab:
      return std::make_unique<SlabPlacement>(granule_bytes);
    case PlacementKind::kBuddy:
      return std::make_unique<BuddyPlacement>(granule_bytes);
    case PlacementKind::kTiered:
      return std::make_unique<TieredPlacement>(bounds, granule_bytes);
  }
  return nullptr;
}

}  // namespace firn

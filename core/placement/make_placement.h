// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// From the kind of a placement to the structure.

#ifndef FIRN_CORE_PLACEMENT_MAKE_PLACEMENT_H_
#define FIRN_CORE_PLACEMENT_MAKE_PLACEMENT_H_

#include <cstdint>
#include <memory>

#include "firn/core/placement/placement.h"
#include "firn/core/placement_kind.h"

namespace firn {

// The structure, which has no granule yet; null for PlacementKind::kFirn, which
// is none of these: what it does takes more than free ranges of addresses.
// `bounds` counts for PlacementKind::kTiered alone. REQUIRES: granule_bytes is
// a power of two of at least 4096, and bounds.Validate(granule_bytes) is OK.
std::unique_ptr<Placement> MakePlacement(PlacementKind kind,
                                         const TierBounds& bounds,
                                         uint64_t granule_bytes);

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_MAKE_PLACEMENT_H_

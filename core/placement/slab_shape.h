// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long a slab of blocks of one size is.

#ifndef FIRN_CORE_PLACEMENT_SLAB_SHAPE_H_
#define FIRN_CORE_PLACEMENT_SLAB_SHAPE_H_

#include <cstdint>

namespace firn {

// The least number of granules of which no more than an eighth is left over
// when they are cut into blocks of `block_bytes`, tried up to eight times as
// many as one block needs; if none is that good, the one of those with the
// least left over per granule.
uint64_t SlabGranules(uint64_t block_bytes, uint64_t granule_bytes);

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_SLAB_SHAPE_H_

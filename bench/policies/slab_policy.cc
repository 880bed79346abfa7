// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/slab_policy.h"

#include "firn/vmm/units.h"

namespace firn::bench {

SlabPolicy::SlabPolicy(const PolicyOptions& options)
    : WholeArenaPolicy(options), granule_bytes_(options.granule_bytes) {}

// What starts at a granule is a run or the first object of its slab: were a
// slab's first granules filled by objects to the byte, it would have no more.
uint64_t SlabPolicy::EndOf(FreeRange extent, uint64_t bytes) const {
  if (extent.start % granule_bytes_ != 0) return extent.end();
  return extent.start + placement().GrowthFor(bytes, kQuantumBytes).bytes;
}

}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Hands out ranges of an endless line of granules, lowest first, so that what
// is created in a row lies in a row.

#ifndef FIRN_VMM_CPU_OFFSET_ALLOCATOR_H_
#define FIRN_VMM_CPU_OFFSET_ALLOCATOR_H_

#include <cstdint>

#include "absl/container/btree_map.h"

namespace firn::cpu {

// Thread safety: none.
class OffsetAllocator {
 public:
  // The lowest free range of `granules`.
  uint64_t Allocate(uint64_t granules);
  // A range that Allocate gave, whole.
  void Free(uint64_t first, uint64_t granules);

  // No granule at or beyond this one is handed out.
  uint64_t end() const { return end_; }

 private:
  // Free ranges below end_: first granule to count. Disjoint, none touching
  // another or end_.
  absl::btree_map<uint64_t, uint64_t> free_;
  uint64_t end_ = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_OFFSET_ALLOCATOR_H_

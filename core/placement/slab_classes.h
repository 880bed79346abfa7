// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The block sizes of structures that keep one size per slab: exact multiples of
// 512 bytes up to 8 KiB, then 8 per power of two.

#ifndef FIRN_CORE_PLACEMENT_SLAB_CLASSES_H_
#define FIRN_CORE_PLACEMENT_SLAB_CLASSES_H_

#include <cstdint>

namespace firn {

struct SlabClass {
  uint32_t index = 0;  // dense, ascending with the size
  uint64_t block_bytes = 0;
};

// The least class whose blocks hold `bytes` (at least 1).
SlabClass SlabClassOf(uint64_t bytes);

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_SLAB_CLASSES_H_

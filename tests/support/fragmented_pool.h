// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool of which little is left alive, everywhere.

#ifndef FIRN_TESTS_SUPPORT_FRAGMENTED_POOL_H_
#define FIRN_TESTS_SUPPORT_FRAGMENTED_POOL_H_

#include <cstdint>
#include <vector>

#include "firn/core/pool.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {

// Allocates blocks of `bytes` until nothing fits, and frees all but every
// `keep`-th: those are filled, and returned.
inline std::vector<FilledBlock> FragmentPool(Pool* pool, uint64_t bytes,
                                             uint64_t keep) {
  std::vector<FilledBlock> kept;
  std::vector<void*> casualties;
  for (uint64_t i = 0;; ++i) {
    const absl::StatusOr<void*> ptr = pool->Allocate(bytes);
    if (!ptr.ok()) break;
    if (i % keep == 0) {
      kept.push_back({*ptr, bytes, i});
      Fill(kept.back());
    } else {
      casualties.push_back(*ptr);
    }
  }
  for (void* const ptr : casualties) FIRN_EXPECT_OK(pool->Free(ptr));
  return kept;
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_FRAGMENTED_POOL_H_

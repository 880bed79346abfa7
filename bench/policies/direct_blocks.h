// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks that have granules of their own, mapped for them alone. Any granules
// do, so that nothing needs to be placed: an address is a mere number.

#ifndef FIRN_BENCH_POLICIES_DIRECT_BLOCKS_H_
#define FIRN_BENCH_POLICIES_DIRECT_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "firn/core/placement/lowest_bit_set.h"

namespace firn::bench {

// Thread safety: none.
class DirectBlocks {
 public:
  // Every address is at least this one; they are one granule apart.
  static constexpr uint64_t kBase = uint64_t{1} << 62;

  explicit DirectBlocks(uint64_t granule_bytes)
      : granule_bytes_(granule_bytes) {}

  static bool MayHold(uint64_t address) { return address >= kBase; }
  // The address of a new block of `bytes` requested bytes, which is not 0.
  uint64_t Add(uint64_t bytes);
  // The requested bytes of the block that is gone now; 0 if there was none.
  uint64_t Remove(uint64_t address);

 private:
  const uint64_t granule_bytes_;
  std::vector<uint64_t> bytes_;  // by number, 0 where none is live
  LowestBitSet unused_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_DIRECT_BLOCKS_H_

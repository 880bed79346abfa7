// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/direct_blocks.h"

#include <utility>

namespace firn::bench {

uint64_t DirectBlocks::Add(uint64_t bytes) {
  uint64_t number = unused_.Lowest();
  if (number == LowestBitSet::kNone) {
    number = bytes_.size();
    bytes_.push_back(bytes);
  } else {
    unused_.Erase(number);
    bytes_[number] = bytes;
  }
  return kBase + number * granule_bytes_;
}

uint64_t DirectBlocks::Remove(uint64_t address) {
  if (!MayHold(address) || address % granule_bytes_ != 0) return 0;
  const uint64_t number = (address - kBase) / granule_bytes_;
  if (number >= bytes_.size() || bytes_[number] == 0) return 0;
  unused_.Insert(number);
  return std::exchange(bytes_[number], uint64_t{0});
}

}  // namespace firn::bench

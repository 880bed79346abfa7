// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/offset_allocator.h"

#include <iterator>

namespace firn::cpu {

uint64_t OffsetAllocator::Allocate(uint64_t granules) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [first, count] = *it;
    if (count < granules) continue;
    free_.erase(it);
    if (count > granules) free_.emplace(first + granules, count - granules);
    return first;
  }
  const uint64_t first = end_;
  end_ += granules;
  return first;
}

void OffsetAllocator::Free(uint64_t first, uint64_t granules) {
  auto next = free_.lower_bound(first);
  if (next != free_.end() && next->first == first + granules) {
    granules += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == first) {
      first = previous->first;
      granules += previous->second;
      free_.erase(previous);
    }
  }
  if (first + granules == end_) {
    end_ = first;
  } else {
    free_.emplace(first, granules);
  }
}

}  // namespace firn::cpu

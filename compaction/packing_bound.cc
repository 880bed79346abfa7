// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/packing_bound.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace firn {
namespace {

constexpr uint32_t kMostParts = 7;

// Items of one weight, and what they are worth together under the function
// that is tried.
struct WeightGroup {
  uint32_t weight = 0;
  uint64_t count = 0;
  uint64_t value = 0;
};

// In units of 1 / (parts * capacity) of a bin, as all values.
uint64_t ValueOf(uint32_t weight, uint32_t capacity, uint32_t parts) {
  const uint64_t scaled = uint64_t{parts + 1} * weight;
  if (parts == 1 || scaled % capacity == 0) return uint64_t{weight} * parts;
  return scaled / capacity * capacity;
}

// The greatest total value over all thresholds, in bins, rounded up. Raising
// the threshold takes the items below it out and lets those as far below a
// full bin count as one.
uint64_t BoundOverThresholds(absl::Span<const WeightGroup> groups,
                             uint32_t capacity, uint64_t value_of_bin) {
  uint64_t total = 0;
  for (const WeightGroup& group : groups) total += group.value;
  uint64_t greatest = total;
  size_t begin = 0;
  size_t end = groups.size();
  while (begin < end) {
    const uint32_t low = groups[begin].weight;
    const uint32_t high = capacity - groups[end - 1].weight;
    const uint32_t threshold = std::min(low, high);
    if (2 * uint64_t{threshold} >= capacity) break;
    if (low == threshold) {
      total -= groups[begin].value;
      ++begin;
    }
    if (high == threshold) {
      --end;
      total += groups[end].count * value_of_bin - groups[end].value;
    }
    greatest = std::max(greatest, total);
  }
  return (greatest + value_of_bin - 1) / value_of_bin;
}

}  // namespace

uint32_t PackingBound(absl::Span<const uint32_t> weights) {
  if (weights.size() < 2) return 0;
  const uint32_t capacity = static_cast<uint32_t>(weights.size() - 1);
  std::vector<WeightGroup> groups;
  for (uint32_t weight = 1; weight <= capacity; ++weight) {
    if (weights[weight] == 0) continue;
    WeightGroup group;
    group.weight = weight;
    group.count = weights[weight];
    groups.push_back(group);
  }
  uint64_t bound = 0;
  for (uint32_t parts = 1; parts <= kMostParts; ++parts) {
    for (WeightGroup& group : groups) {
      group.value = group.count * ValueOf(group.weight, capacity, parts);
    }
    bound = std::max(bound, BoundOverThresholds(groups, capacity,
                                                uint64_t{parts} * capacity));
  }
  return static_cast<uint32_t>(bound);
}

}  // namespace firn

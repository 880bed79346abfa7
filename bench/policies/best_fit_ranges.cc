// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/best_fit_ranges.h"

#include <iterator>

namespace firn::bench {

absl::optional<uint64_t> BestFitRanges::Take(uint64_t bytes) {
  const auto best = by_bytes_and_start_.lower_bound({bytes, 0});
  if (best == by_bytes_and_start_.end()) return absl::nullopt;
  const auto [range_bytes, start] = *best;
  by_bytes_and_start_.erase(best);
  const auto range = bytes_by_start_.erase(bytes_by_start_.find(start));
  if (range_bytes > bytes) {
    bytes_by_start_.emplace_hint(range, start + bytes, range_bytes - bytes);
    by_bytes_and_start_.emplace(range_bytes - bytes, start + bytes);
  }
  return start;
}

void BestFitRanges::Give(FreeRange range) {
  auto above = bytes_by_start_.lower_bound(range.start);
  if (above != bytes_by_start_.end() && above->first == range.end()) {
    by_bytes_and_start_.erase({above->second, above->first});
    range.bytes += above->second;
    above = bytes_by_start_.erase(above);
  }
  if (above != bytes_by_start_.begin()) {
    const auto below = std::prev(above);
    if (below->first + below->second == range.start) {
      by_bytes_and_start_.erase({below->second, below->first});
      below->second += range.bytes;
      by_bytes_and_start_.emplace(below->second, below->first);
      return;
    }
  }
  bytes_by_start_.emplace_hint(above, range.start, range.bytes);
  by_bytes_and_start_.emplace(range.bytes, range.start);
}

}  // namespace firn::bench

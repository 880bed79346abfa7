// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/best_fit_ranges.h"

#include <algorithm>
#include <iterator>

namespace firn {

std::optional<FreeRange> BestFitRanges::Find(uint64_t bytes) const {
  const auto best = by_bytes_and_start_.lower_bound({bytes, 0});
  if (best == by_bytes_and_start_.end()) return std::nullopt;
  return FreeRange{best->second, best->first};
}

std::optional<uint64_t> BestFitRanges::Take(uint64_t bytes) {
  const auto best = by_bytes_and_start_.lower_bound({bytes, 0});
  if (best == by_bytes_and_start_.end()) return std::nullopt;
  const auto [range_bytes, start] = *best;
  by_bytes_and_start_.erase(best);
  const auto range = bytes_by_start_.erase(bytes_by_start_.find(start));
  if (range_bytes > bytes) {
    bytes_by_start_.emplace_hint(range, start + bytes, range_bytes - bytes);
    by_bytes_and_start_.emplace(range_bytes - bytes, start + bytes);
  }
  return start;
}

bool BestFitRanges::TakeAt(FreeRange range) {
  auto around = bytes_by_start_.upper_bound(range.start);
  if (around == bytes_by_start_.begin()) return false;
  --around;
  if (around->first + around->second < range.end()) return false;
  Cut(around, range);
  return true;
}

uint64_t BestFitRanges::Remove(FreeRange range) {
  uint64_t removed_bytes = 0;
  auto next = bytes_by_start_.upper_bound(range.start);
  if (next != bytes_by_start_.begin()) --next;
  while (next != bytes_by_start_.end() && next->first < range.end()) {
    const uint64_t start = std::max(next->first, range.start);
    const uint64_t end = std::min(next->first + next->second, range.end());
    if (start >= end) {
      ++next;  // the one below ends before the range
      continue;
    }
    removed_bytes += end - start;
    next = Cut(next, {start, end - start});
  }
  return removed_bytes;
}

BestFitRanges::ByStart::iterator BestFitRanges::Cut(ByStart::iterator range,
                                                    FreeRange taken) {
  const FreeRange before{range->first, range->second};
  by_bytes_and_start_.erase({before.bytes, before.start});
  const uint64_t below_bytes = taken.start - before.start;
  const uint64_t above_bytes = before.end() - taken.end();
  if (below_bytes > 0) {
    range->second = below_bytes;
    by_bytes_and_start_.emplace(below_bytes, before.start);
    ++range;
  } else {
    range = bytes_by_start_.erase(range);
  }
  if (above_bytes == 0) return range;
  by_bytes_and_start_.emplace(above_bytes, taken.end());
  return bytes_by_start_.emplace_hint(range, taken.end(), above_bytes);
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

}  // namespace firn

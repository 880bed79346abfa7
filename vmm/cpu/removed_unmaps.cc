// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/removed_unmaps.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace firn::cpu {

void RemovedUnmaps::Add(DevicePtr base, uint64_t bytes, uint64_t epoch) {
  // Nothing that could say less than what is known of forgotten ranges.
  if (bytes == 0 || epoch <= forgotten_epoch_) return;
  Cut(base, base + bytes);
  ranges_.emplace(base, Range{base + bytes, epoch});
  if (ranges_.size() > kMaxRanges) ForgetOlderHalf();
}

uint64_t RemovedUnmaps::LatestIn(DevicePtr base, uint64_t bytes) const {
  uint64_t latest = forgotten_epoch_;
  for (auto it = FirstBehind(base);
       it != ranges_.end() && it->first < base + bytes; ++it) {
    latest = std::max(latest, it->second.epoch);
  }
  return latest;
}

RemovedUnmaps::RangeMap::const_iterator RemovedUnmaps::FirstBehind(
    DevicePtr address) const {
  auto it = ranges_.upper_bound(address);
  if (it != ranges_.begin() && std::prev(it)->second.end > address) --it;
  return it;
}

void RemovedUnmaps::Cut(DevicePtr base, DevicePtr end) {
  for (auto it = FirstBehind(base); it != ranges_.end() && it->first < end;) {
    const DevicePtr first = it->first;
    const Range range = it->second;
    ranges_.erase(first);
    if (first < base) ranges_.emplace(first, Range{base, range.epoch});
    if (range.end > end) ranges_.emplace(end, range);
    it = FirstBehind(base);
  }
}

void RemovedUnmaps::ForgetOlderHalf() {
  std::vector<uint64_t> epochs;
  epochs.reserve(ranges_.size());
  for (const auto& [base, range] : ranges_) epochs.push_back(range.epoch);
  const auto middle =
      epochs.begin() + static_cast<ptrdiff_t>(epochs.size() / 2);
  std::nth_element(epochs.begin(), middle, epochs.end());
  forgotten_epoch_ = *middle;
  for (auto it = ranges_.begin(); it != ranges_.end();) {
    it = it->second.epoch <= forgotten_epoch_ ? ranges_.erase(it)
                                              : std::next(it);
  }
}

}  // namespace firn::cpu

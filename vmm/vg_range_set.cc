// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/vg_range_set.h"

#include <cassert>
#include <iterator>

namespace firn {
namespace {

VgRange MakeRange(uint32_t first, uint32_t count) {
  VgRange range;
  range.first = VgIndex(first);
  range.count = count;
  return range;
}

}  // namespace

void VgRangeSet::Link(VgRange range) {
  by_start_.emplace(range.first.value(), range.count);
  by_length_.emplace(range.count, range.first.value());
}

void VgRangeSet::Unlink(VgRange range) {
  by_start_.erase(range.first.value());
  by_length_.erase({range.count, range.first.value()});
}

void VgRangeSet::Insert(VgRange range) {
  if (range.count == 0) return;
  vg_count_ += range.count;
  auto next = by_start_.lower_bound(range.first.value());
  assert(next == by_start_.end() || next->first >= range.end().value());
  if (next != by_start_.end() && next->first == range.end().value()) {
    const VgRange after = MakeRange(next->first, next->second);
    Unlink(after);
    range.count += after.count;
    next = by_start_.lower_bound(range.first.value());
  }
  if (next != by_start_.begin()) {
    const auto previous = std::prev(next);
    const VgRange before = MakeRange(previous->first, previous->second);
    assert(!(range.first < before.end()));
    if (before.end() == range.first) {
      Unlink(before);
      range = MakeRange(before.first.value(), before.count + range.count);
    }
  }
  Link(range);
}

void VgRangeSet::Remove(VgRange range) {
  if (range.count == 0) return;
  const std::optional<VgRange> holder = Find(range.first);
  assert(holder.has_value() && !(holder->end() < range.end()));
  if (!holder.has_value()) return;
  vg_count_ -= range.count;
  Unlink(*holder);
  if (holder->first < range.first) {
    Link(MakeRange(holder->first.value(), range.first - holder->first));
  }
  if (range.end() < holder->end()) {
    Link(MakeRange(range.end().value(), holder->end() - range.end()));
  }
}

std::optional<VgRange> VgRangeSet::Find(VgIndex vg) const {
  auto it = by_start_.upper_bound(vg.value());
  if (it == by_start_.begin()) return std::nullopt;
  --it;
  const VgRange range = MakeRange(it->first, it->second);
  if (!range.contains(vg)) return std::nullopt;
  return range;
}

std::optional<VgRange> VgRangeSet::BestFit(uint32_t count) const {
  const auto it = by_length_.lower_bound({count, 0});
  if (it == by_length_.end()) return std::nullopt;
  return MakeRange(it->second, it->first);
}

std::optional<VgRange> VgRangeSet::NextByLength(VgRange range) const {
  const auto it = by_length_.upper_bound({range.count, range.first.value()});
  if (it == by_length_.end()) return std::nullopt;
  return MakeRange(it->second, it->first);
}

std::optional<VgRange> VgRangeSet::PreviousByLength(VgRange range) const {
  auto it = by_length_.lower_bound({range.count, range.first.value()});
  if (it == by_length_.begin()) return std::nullopt;
  --it;
  return MakeRange(it->second, it->first);
}

std::optional<VgRange> VgRangeSet::Shortest() const {
  if (by_length_.empty()) return std::nullopt;
  return MakeRange(by_length_.begin()->second, by_length_.begin()->first);
}

std::optional<VgRange> VgRangeSet::Longest() const {
  if (by_length_.empty()) return std::nullopt;
  return MakeRange(by_length_.rbegin()->second, by_length_.rbegin()->first);
}

std::optional<VgRange> VgRangeSet::Last() const {
  if (by_start_.empty()) return std::nullopt;
  return MakeRange(by_start_.rbegin()->first, by_start_.rbegin()->second);
}

bool VgRangeSet::CheckInvariants() const {
  if (by_start_.size() != by_length_.size()) return false;
  uint64_t total = 0;
  uint64_t end = 0;
  bool first = true;
  for (const auto& [start, count] : by_start_) {
    if (count == 0 || (!first && start <= end)) return false;
    if (by_length_.count({count, start}) == 0) return false;
    end = uint64_t{start} + count;
    total += count;
    first = false;
  }
  return total == vg_count_;
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A set of virtual granules kept as disjoint, coalesced ranges, searched by
// position and by length.

#ifndef FIRN_VMM_VG_RANGE_SET_H_
#define FIRN_VMM_VG_RANGE_SET_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "firn/vmm/units.h"

namespace firn {

// Every operation is logarithmic in the number of ranges.
// Thread safety: none.
//
// Invariants:
//   (1) ranges are non-empty, disjoint and not adjacent;
//   (2) both indexes hold the same ranges.
class VgRangeSet {
 public:
  bool empty() const { return by_start_.empty(); }
  uint32_t vg_count() const { return vg_count_; }
  size_t range_count() const { return by_start_.size(); }

  // Adds a range, none of which is in the set.
  void Insert(VgRange range);
  // Removes a range, all of which is in the set.
  void Remove(VgRange range);

  // The range that holds `vg`, if any.
  std::optional<VgRange> Find(VgIndex vg) const;
  // The shortest range of at least `count`, lowest first.
  std::optional<VgRange> BestFit(uint32_t count) const;
  // The next range after `range` in order of length, then position.
  std::optional<VgRange> NextByLength(VgRange range) const;
  std::optional<VgRange> Shortest() const;
  std::optional<VgRange> Longest() const;
  // The range at the highest position.
  std::optional<VgRange> Last() const;
  // The range before the longest-first position of `range`.
  std::optional<VgRange> PreviousByLength(VgRange range) const;

  bool CheckInvariants() const;

 private:
  using LengthKey = std::pair<uint32_t, uint32_t>;  // count, first

  void Link(VgRange range);
  void Unlink(VgRange range);

  absl::btree_map<uint32_t, uint32_t> by_start_;  // first -> count
  absl::btree_set<LengthKey> by_length_;
  uint32_t vg_count_ = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_VG_RANGE_SET_H_

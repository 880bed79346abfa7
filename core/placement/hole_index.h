// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Granules ordered by their largest hole: a clear run of quanta, windows or
// not. Kept for the rare searches at the end of a pool's means, so that work
// is put off until one is made, and a search that fails again is cheap.

#ifndef FIRN_CORE_PLACEMENT_HOLE_INDEX_H_
#define FIRN_CORE_PLACEMENT_HOLE_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/numeric/bits.h"
#include "firn/vmm/units.h"

namespace firn {

// Which holes of a granule count, and from where they are measured.
class HoleKind {
 public:
  // Holes at the very bottom, at the very top.
  static HoleKind Bottom() { return HoleKind(kBottom); }
  static HoleKind Top() { return HoleKind(kTop); }
  // Holes anywhere, from the first multiple of a power of two on.
  static HoleKind Aligned(uint32_t alignment_quanta) {
    return HoleKind(static_cast<size_t>(absl::countr_zero(alignment_quanta)));
  }

  bool is_bottom() const { return index_ == kBottom; }
  bool is_top() const { return index_ == kTop; }
  // Of kinds that are neither.
  uint32_t alignment_quanta() const { return uint32_t{1} << index_; }

  static constexpr size_t kCount = 34;
  size_t index() const { return index_; }
  static HoleKind FromIndex(size_t index) { return HoleKind(index); }

 private:
  static constexpr size_t kBottom = 32;
  static constexpr size_t kTop = 33;

  explicit HoleKind(size_t index) : index_(index) {}

  size_t index_;
};

// A kind of hole is measured on all granules when it is first searched for,
// and from then on only on those that changed since the last search. What
// became smaller without being marked is measured when a search comes across
// it. A search that fails therefore costs the logarithm of the number of
// granules, and as many measurements as there were changes.
//
// Thread safety: none.
class HoleIndex {
 public:
  // `granule` may have a larger hole than before. Constant, allocates nothing.
  void MarkChanged(GranuleId granule) {
    if (!in_use_ || is_changed_[granule.value()]) return;
    is_changed_[granule.value()] = true;
    changed_.push_back(granule);
  }
  // There are granules up to `limit` now.
  void Resize(uint32_t limit);
  uint32_t limit() const { return static_cast<uint32_t>(is_changed_.size()); }

  // A granule with a hole of at least `quanta` (above 0), none if there is
  // none; of those that did not shrink unmarked, the smallest.
  // `measure(granule, kind)` is a granule's largest hole in quanta; 0 if it can
  // take nothing.
  template <typename Measure>
  GranuleId Find(HoleKind kind, uint32_t quanta, const Measure& measure) {
    Update(kind, measure);
    Order& order = orders_[kind.index()];
    while (true) {
      const auto it = order.by_quanta.lower_bound({quanta, 0});
      if (it == order.by_quanta.end()) return GranuleId();
      const GranuleId granule(it->second);
      const uint32_t known_quanta = it->first;
      const uint32_t hole_quanta = measure(granule, kind);
      if (hole_quanta == known_quanta) return granule;
      order.Set(granule, hole_quanta);
    }
  }

 private:
  struct Order {
    bool in_use = false;
    absl::btree_set<std::pair<uint32_t, uint32_t>> by_quanta;  // and granule
    std::vector<uint32_t> quanta;                              // by granule

    void Set(GranuleId granule, uint32_t hole_quanta);
  };

  template <typename Measure>
  void Update(HoleKind kind, const Measure& measure) {
    for (const GranuleId granule : changed_) {
      is_changed_[granule.value()] = false;
      for (size_t i = 0; i < orders_.size(); ++i) {
        if (!orders_[i].in_use) continue;
        orders_[i].Set(granule, measure(granule, HoleKind::FromIndex(i)));
      }
    }
    changed_.clear();
    Order& order = orders_[kind.index()];
    if (order.in_use) return;
    order.in_use = true;
    in_use_ = true;
    order.quanta.resize(is_changed_.size(), 0);
    for (uint32_t i = 0; i < order.quanta.size(); ++i) {
      order.Set(GranuleId(i), measure(GranuleId(i), kind));
    }
  }

  bool in_use_ = false;
  std::array<Order, HoleKind::kCount> orders_;
  std::vector<GranuleId> changed_;
  std::vector<bool> is_changed_;  // by granule
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_HOLE_INDEX_H_

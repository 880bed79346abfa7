// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/slot_directory.h"

namespace firn {
SlotDirectory::SlotDirectory(uint32_t vg_count,
                             absl::Span<const uint32_t> slot_quanta)
    : entries_(vg_count) {
  constexpr uint64_t kOne = uint64_t{1} << kReciprocalBits;
  for (const uint32_t quanta : slot_quanta) {
    Divisor divisor;
    divisor.reciprocal = (kOne + quanta - 1) / quanta;
    divisor.slot_quanta = quanta;
    divisors_.push_back(divisor);
  }
  // Alone in its window: index 0 for every distance, of which only 0 is right.
  divisors_.emplace_back();
}

SlotDirectory::Cells SlotDirectory::Open(VgIndex vg, const SlotGrid& grid) {
  Cells cells;
  cells.first = cells_.Take(grid.slots);
  last_epoch_ = (last_epoch_ + 1) & ((uint32_t{1} << kEpochBits) - 1);
  cells.epoch = last_epoch_;
  SlotGrid with_epoch = grid;
  with_epoch.epoch = last_epoch_;
  // In this order: whoever finds the grid before and after finds its cells in
  // between.
  Entry& entry = entries_[vg.value()];
  entry.cells.store(cells.first, std::memory_order_release);
  entry.grid.store(Pack(with_epoch), std::memory_order_release);
  return cells;
}

void SlotDirectory::Close(VgIndex vg) {
  Entry& entry = entries_[vg.value()];
  const SlotGrid grid = Unpack(entry.grid.load(std::memory_order_relaxed));
  entry.grid.store(0, std::memory_order_relaxed);
  cells_.Return(entry.cells.load(std::memory_order_relaxed), grid.slots);
}

}  // namespace firn

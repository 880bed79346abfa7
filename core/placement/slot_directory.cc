// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/slot_directory.h"

#include "absl/numeric/bits.h"

namespace firn {
namespace {

int CapacityLog2(uint32_t slots) {
  return static_cast<int>(absl::bit_width(slots - 1));
}

}  // namespace

SlotDirectory::SlotDirectory(uint32_t vg_count,
                             absl::Span<const uint32_t> slot_quanta)
    : tables_(vg_count) {
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
  const int log2 = CapacityLog2(grid.slots);
  std::vector<SlotCell*>& unused = unused_tables_[static_cast<size_t>(log2)];
  if (unused.empty()) {
    const size_t cells = 1 + (size_t{1} << log2);
    all_tables_.push_back(std::make_unique<SlotCell[]>(cells));
    unused.push_back(all_tables_.back().get());
  }
  SlotCell* const table = unused.back();
  unused.pop_back();
  last_epoch_ = (last_epoch_ + 1) & ((uint32_t{1} << kEpochBits) - 1);
  SlotGrid with_epoch = grid;
  with_epoch.epoch = last_epoch_;
  table[0].store(Pack(with_epoch), std::memory_order_relaxed);
  tables_[vg.value()].store(table, std::memory_order_release);
  Cells cells;
  cells.first = table + 1;
  cells.epoch = last_epoch_;
  return cells;
}

void SlotDirectory::Close(VgIndex vg) {
  SlotCell* const table = tables_[vg.value()].load(std::memory_order_relaxed);
  tables_[vg.value()].store(nullptr, std::memory_order_relaxed);
  const SlotGrid grid = Unpack(table[0].load(std::memory_order_relaxed));
  unused_tables_[static_cast<size_t>(CapacityLog2(grid.slots))].push_back(
      table);
}

}  // namespace firn

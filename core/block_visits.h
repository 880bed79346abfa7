// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pool::Impl::ForEachBlockOn, for the sources that walk over blocks.

#ifndef FIRN_CORE_BLOCK_VISITS_H_
#define FIRN_CORE_BLOCK_VISITS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "firn/core/pool_impl.h"

namespace firn {

template <typename Visit>
void Pool::Impl::ForEachBlockOn(VgIndex vg, Visit visit) const {
  const VgRecord& record = VgAt(vg);
  const Arena& arena = *arenas_[record.arena];
  BlockStart start;
  if (record.role == VgRole::kRemainder || record.role == VgRole::kInterior) {
    start.vg = arena.large.RangeOf(vg).first;
    // Not 0 where the remainder is the block's head.
    start.offset_quanta = VgAt(start.vg).window.lo;
    SlotContents contents;
    contents.requested_bytes = arena.large.RequestedBytes(start);
    contents.state = BlockState::kMarked;
    if (contents.requested_bytes > 0) visit(start, contents);
    return;
  }
  if (record.role == VgRole::kPlaced) {
    arena.placed->ForEachBlockOn(
        vg, [&](const PlacementAllocator::PlacedBlock& block) {
          SlotContents contents;
          contents.requested_bytes = block.requested_bytes;
          contents.state = block.requested_bytes > 0 ? BlockState::kMarked
                                                     : BlockState::kPending;
          visit(block.start, contents);
        });
    return;
  }
  if (record.role != VgRole::kWindow) return;
  std::vector<OffsetInterval> extents;
  arena.windows.AppendLiveExtents(record.owner, &extents);
  start.vg = vg;
  for (const OffsetInterval& extent : extents) {
    for (uint32_t at = extent.lo; at < extent.hi;) {
      const SlotDirectory::Slot slot = slots_.Find(vg, at);
      start.offset_quanta = at;
      visit(start, UnpackSlot(slot.cell->load(std::memory_order_relaxed)));
      at += slot.size_class < size_classes_.count()
                ? size_classes_.slot_quanta(slot.size_class)
                : extent.quanta();
    }
  }
}

}  // namespace firn

#endif  // FIRN_CORE_BLOCK_VISITS_H_

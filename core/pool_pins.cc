// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pins and tags: what is on record of single blocks of a pool.

#include <algorithm>

#include "firn/core/pool_impl.h"
#include "firn/core/pool_spiller.h"

namespace firn {

bool Pool::Impl::MarkBlock(BlockStart start) {
  return VgAt(start.vg).role != VgRole::kWindow ||
         ArenaOf(start.vg).windows.Mark(start);
}

// --- Pins ---

PinnedBlock Pool::Impl::PinnedBlockAt(BlockStart start) const {
  PinnedBlock block;
  block.key = UseKey(start);
  block.bytes = RequestedBytes(start);
  if (VgAt(start.vg).role == VgRole::kWindow) {
    block.movable_vgs.first = start.vg;
    block.movable_vgs.count = 1;
    return block;
  }
  // No pass would empty them anyway, and they are counted with their arena.
  if (!ArenaOf(start.vg).may_move()) return block;
  const VgRange range = RangeOf(start);
  if (VgAt(start.vg).role == VgRole::kPlaced) {
    block.movable_vgs = range;
    return block;
  }
  // The remainder is at either end, if there is one.
  block.full_granules = range.count;
  for (const VgIndex vg : {range.first, range.end() - 1}) {
    if (VgAt(vg).role != VgRole::kRemainder) continue;
    block.movable_vgs.first = vg;
    block.movable_vgs.count = 1;
    block.full_granules = range.count - 1;
  }
  return block;
}

absl::StatusOr<Pin> Pool::Impl::PinBlock(const void* ptr,
                                         absl::string_view reason) {
  const absl::Status has_reason = CheckReason(reason);
  if (!has_reason.ok()) return has_reason;
  MutexLock lock(&mutex_);
  const absl::StatusOr<BlockStart> start = FindBlock(ptr);
  if (!start.ok()) return start.status();
  if (Spiller(this).IsSpilled(*start)) {
    return absl::FailedPreconditionError(
        "PinBlock: the block lies in host memory; call MarkActive first");
  }
  const PinnedBlock block = PinnedBlockAt(*start);
  // From here on a free comes by, and finds the pin.
  if (!MarkBlock(*start)) return NoBlockAt(ToAddress(ptr));
  const uint64_t id = pins_->Add(block, reason);
  return Pin(pins_, id, ToPointer(ToAddress(ptr)));
}

uint64_t Pool::Impl::PinnedGranules() const {
  std::vector<GranuleId> shared;
  for (const VgIndex vg : pins_->PinnedVgs()) {
    if (!ArenaOf(vg).may_move()) continue;
    shared.push_back(VgAt(vg).granule);
  }
  std::sort(shared.begin(), shared.end());
  shared.erase(std::unique(shared.begin(), shared.end()), shared.end());
  uint64_t granules = shared.size() + pins_->totals().full_granules;
  for (const auto& arena : arenas_) {
    if (!arena->may_move()) granules += arena->books.used_granules();
  }
  return granules;
}

// --- Tags ---

absl::StatusOr<Tag> Pool::Impl::RegisterTag(absl::string_view name) {
  MutexLock lock(&mutex_);
  return tags_.Register(name);
}

std::vector<TagStats> Pool::Impl::GetTagStats() const {
  MutexLock lock(&mutex_);
  const CacheTotals cached = caches_.totals();
  return tags_.Stats(
      LiveBytes(), stats_.live_allocations + cached.allocations - cached.frees,
      stats_.allocations + cached.allocations);
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/slab_placement.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "firn/core/placement/aligned_take.h"
#include "firn/core/placement/size_rounding.h"
#include "firn/core/placement/slab_shape.h"
#include "firn/core/placement_kind.h"

namespace firn {

uint64_t SlabPlacement::Slab::LowestOwnGranule() const {
  return first_granule + static_cast<uint64_t>(std::countr_zero(own_granules));
}

absl::string_view SlabPlacement::name() const {
  return PlacementKindName(PlacementKind::kSlab);
}

std::optional<SlabClass> SlabPlacement::ClassFor(
    uint64_t bytes, uint64_t alignment_bytes) const {
  if (std::max(bytes, alignment_bytes) > granule_bytes_ / 2) {
    return std::nullopt;
  }
  // Slabs start at a granule, so the slots of a class are as aligned as their
  // length. Powers of two are classes: the last step is half a granule.
  SlabClass size_class = SlabClassOf(RoundUp(bytes, alignment_bytes));
  while (size_class.block_bytes % alignment_bytes != 0) {
    size_class = SlabClassOf(size_class.block_bytes + 1);
  }
  return size_class;
}

uint64_t SlabPlacement::SlabBytes(SlabClass size_class) const {
  return SlabGranules(size_class.block_bytes, granule_bytes_) * granule_bytes_;
}

Placement::Growth SlabPlacement::GrowthFor(uint64_t bytes,
                                           uint64_t alignment_bytes) const {
  const uint64_t capped_bytes = CapRequest(bytes);
  if (const auto size_class = ClassFor(capped_bytes, alignment_bytes)) {
    return {SlabBytes(*size_class), granule_bytes_};
  }
  return {RoundUp(capped_bytes, granule_bytes_),
          std::max(alignment_bytes, granule_bytes_)};
}

void SlabPlacement::Give(FreeRange granules, uint64_t /*wanted_bytes*/) {
  own_.Give(granules);
  runs_.Give(granules);
  given_last_ = granules;
}

std::optional<FreeRange> SlabPlacement::Take(uint64_t bytes,
                                             uint64_t alignment_bytes) {
  if (std::max(bytes, alignment_bytes) > kLargestRequestBytes) {
    return std::nullopt;
  }
  if (const auto size_class = ClassFor(bytes, alignment_bytes)) {
    return TakeSlot(*size_class);
  }
  const uint64_t run_bytes = RoundUp(bytes, granule_bytes_);
  const std::optional<uint64_t> start = TakeAligned(
      run_bytes, alignment_bytes, granule_bytes_, given_last_, &runs_);
  if (!start.has_value()) return std::nullopt;
  return FreeRange{*start, run_bytes};
}

std::optional<FreeRange> SlabPlacement::TakeSlot(SlabClass size_class) {
  if (size_class.index >= open_slabs_.size()) {
    open_slabs_.resize(size_class.index + 1);
  }
  LowestBitSet& open_slabs = open_slabs_[size_class.index];
  if (open_slabs.empty() && !AddSlab(size_class)) return std::nullopt;
  const uint64_t granule = open_slabs.Lowest();
  Slab& slab = slabs_[slab_at_granule_[granule] - 1];
  const uint64_t slot = slab.free_slots.Lowest();
  slab.free_slots.Erase(slot);
  ++slab.live_slots;
  if (slab.free_slots.empty()) open_slabs.Erase(granule);
  return FreeRange{
      slab.first_granule * granule_bytes_ + slot * size_class.block_bytes,
      size_class.block_bytes};
}

bool SlabPlacement::AddSlab(SlabClass size_class) {
  const uint64_t slab_bytes = SlabBytes(size_class);
  const std::optional<uint64_t> start = runs_.Take(slab_bytes);
  if (!start.has_value()) return false;
  auto index = static_cast<uint32_t>(slabs_.size());
  if (unused_slabs_.empty()) {
    slabs_.emplace_back();
  } else {
    index = unused_slabs_.back();
    unused_slabs_.pop_back();
  }
  Slab& slab = slabs_[index];
  slab.first_granule = *start / granule_bytes_;
  // Slots are no longer than a granule, so slabs are of at most eight.
  slab.granules = static_cast<uint32_t>(slab_bytes / granule_bytes_);
  slab.own_granules = (uint32_t{1} << slab.granules) - 1;
  slab.size_class = size_class;
  slab.free_slots.AssignFirst(slab_bytes / size_class.block_bytes);
  slab.live_slots = 0;
  const uint64_t end = slab.first_granule + slab.granules;
  if (end > slab_at_granule_.size()) {
    // Doubling keeps the cost of growing constant for each granule.
    slab_at_granule_.resize(std::max(end, 2 * slab_at_granule_.size()));
  }
  std::fill_n(
      slab_at_granule_.begin() + static_cast<ptrdiff_t>(slab.first_granule),
      slab.granules, index + 1);
  open_slabs_[size_class.index].Insert(slab.LowestOwnGranule());
  return true;
}

void SlabPlacement::Free(FreeRange extent) {
  if (extent.bytes <= granule_bytes_ / 2) {
    FreeSlot(extent);
    return;
  }
  own_.ForEachPart(extent, [this](FreeRange part) { runs_.Give(part); });
}

void SlabPlacement::FreeSlot(FreeRange extent) {
  // Known even where the slab has lost the granule: with a live block in it, it
  // cannot have been given again.
  Slab& slab = slabs_[slab_at_granule_[extent.start / granule_bytes_] - 1];
  const uint64_t slot = (extent.start - slab.first_granule * granule_bytes_) /
                        slab.size_class.block_bytes;
  --slab.live_slots;
  if (IsOwn(slab, slot)) {
    if (slab.free_slots.empty()) {
      open_slabs_[slab.size_class.index].Insert(slab.LowestOwnGranule());
    }
    slab.free_slots.Insert(slot);
  }
  if (slab.live_slots == 0) RemoveSlab(&slab);
}

bool SlabPlacement::IsOwn(const Slab& slab, uint64_t slot) const {
  const uint64_t start = slot * slab.size_class.block_bytes;
  const uint64_t last = start + slab.size_class.block_bytes - 1;
  return (slab.own_granules >> (start / granule_bytes_) & 1) != 0 &&
         (slab.own_granules >> (last / granule_bytes_) & 1) != 0;
}

void SlabPlacement::RemoveSlab(Slab* slab) {
  if (!slab->free_slots.empty()) {
    open_slabs_[slab->size_class.index].Erase(slab->LowestOwnGranule());
  }
  const auto index = static_cast<uint32_t>(slab - slabs_.data());
  for (uint32_t i = 0; i < slab->granules; ++i) {
    const uint64_t granule = slab->first_granule + i;
    // A lost one may be another's by now.
    if (slab_at_granule_[granule] == index + 1) slab_at_granule_[granule] = 0;
    if ((slab->own_granules >> i & 1) == 0) continue;
    runs_.Give({granule * granule_bytes_, granule_bytes_});
  }
  unused_slabs_.push_back(index);
}

void SlabPlacement::Withdraw(FreeRange granules) {
  own_.Remove(granules);
  runs_.Remove(granules);
  const uint64_t end = std::min<uint64_t>(granules.end() / granule_bytes_,
                                          slab_at_granule_.size());
  for (uint64_t granule = granules.start / granule_bytes_; granule < end;
       ++granule) {
    const uint32_t slab = slab_at_granule_[granule];
    if (slab != 0) Shrink(granule, &slabs_[slab - 1]);
  }
}

void SlabPlacement::Shrink(uint64_t granule, Slab* slab) {
  const uint64_t offset = granule - slab->first_granule;
  if ((slab->own_granules >> offset & 1) == 0) return;
  LowestBitSet& open_slabs = open_slabs_[slab->size_class.index];
  if (!slab->free_slots.empty()) open_slabs.Erase(slab->LowestOwnGranule());
  slab->own_granules &= ~(uint32_t{1} << offset);
  const uint64_t block_bytes = slab->size_class.block_bytes;
  const uint64_t end = DivideUp((offset + 1) * granule_bytes_, block_bytes);
  for (uint64_t slot =
           slab->free_slots.LowestFrom(offset * granule_bytes_ / block_bytes);
       slot < end; slot = slab->free_slots.LowestFrom(slot + 1)) {
    slab->free_slots.Erase(slot);
  }
  if (!slab->free_slots.empty()) open_slabs.Insert(slab->LowestOwnGranule());
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/slab_heap.h"

#include <algorithm>
#include <cstddef>

namespace firn::bench {

bool SlabHeap::HasFreeSlot(SlabClass size_class) const {
  return size_class.index < classes_.size() &&
         classes_[size_class.index].free_slots > 0;
}

void SlabHeap::AddSlab(SlabClass size_class, SlabRun run) {
  if (size_class.index >= classes_.size()) {
    classes_.resize(size_class.index + 1);
  }
  uint32_t index = static_cast<uint32_t>(slabs_.size());
  if (unused_slabs_.empty()) {
    slabs_.emplace_back();
  } else {
    index = unused_slabs_.back();
    unused_slabs_.pop_back();
  }
  const uint64_t slots = run.granules * granule_bytes_ / size_class.block_bytes;
  Slab& slab = slabs_[index];
  slab.run = run;
  slab.size_class = size_class;
  slab.free_slots.AssignFirst(slots);
  slab.tags.assign(slots, 0);
  const uint64_t first_granule = FirstGranule(slab);
  if (first_granule + run.granules > slab_at_granule_.size()) {
    slab_at_granule_.resize(first_granule + run.granules);
  }
  std::fill_n(slab_at_granule_.begin() + static_cast<ptrdiff_t>(first_granule),
              run.granules, index + 1);
  Class& its_class = classes_[size_class.index];
  its_class.block_bytes = size_class.block_bytes;
  its_class.slots_per_slab = slots;
  Refile(slab, 0);
}

void SlabHeap::Refile(const Slab& slab, uint64_t free_slots_before) {
  Class& its_class = classes_[slab.size_class.index];
  const uint64_t first_granule = FirstGranule(slab);
  const uint64_t free_slots = slab.free_slots.count();
  its_class.free_slots += free_slots - free_slots_before;
  if (free_slots_before == 0) its_class.open_slabs.Insert(first_granule);
  if (free_slots == 0) its_class.open_slabs.Erase(first_granule);
  if (moves_ == CompactionMode::kOff) return;
  if (free_slots_before > 0) {
    its_class.by_free_slots.erase({free_slots_before, first_granule});
  }
  if (free_slots > 0) {
    its_class.by_free_slots.emplace(free_slots, first_granule);
  }
}

uint64_t SlabHeap::Place(SlabClass size_class, uint64_t tag) {
  const Class& its_class = classes_[size_class.index];
  const uint64_t first_granule = moves_ == CompactionMode::kBackground
                                     ? its_class.by_free_slots.begin()->second
                                     : its_class.open_slabs.Lowest();
  return PlaceIn(&SlabAtGranule(first_granule), tag);
}

uint64_t SlabHeap::PlaceIn(Slab* slab, uint64_t tag) {
  const uint64_t slot = slab->free_slots.Lowest();
  slab->free_slots.Erase(slot);
  slab->tags[slot] = tag;
  Refile(*slab, slab->free_slots.count() + 1);
  return slab->run.address + slot * slab->size_class.block_bytes;
}

SlabHeap::FreedBlock SlabHeap::Free(uint64_t address) {
  const uint64_t granule = address / granule_bytes_;
  if (granule >= slab_at_granule_.size() || slab_at_granule_[granule] == 0) {
    return {};
  }
  Slab& slab = SlabAtGranule(granule);
  const uint64_t offset_bytes = address - slab.run.address;
  const uint64_t slot = offset_bytes / slab.size_class.block_bytes;
  if (offset_bytes % slab.size_class.block_bytes != 0 ||
      slot >= slab.tags.size() || slab.tags[slot] == 0) {
    return {};
  }
  FreedBlock freed;
  freed.tag = std::exchange(slab.tags[slot], uint64_t{0});
  const uint64_t free_slots_before = slab.free_slots.count();
  slab.free_slots.Insert(slot);
  Refile(slab, free_slots_before);
  if (slab.free_slots.count() == slab.tags.size()) freed.emptied = Remove(slab);
  return freed;
}

SlabRun SlabHeap::Remove(const Slab& slab) {
  Class& its_class = classes_[slab.size_class.index];
  its_class.free_slots -= slab.tags.size();
  its_class.open_slabs.Erase(FirstGranule(slab));
  if (moves_ != CompactionMode::kOff) {
    its_class.by_free_slots.erase({slab.tags.size(), FirstGranule(slab)});
  }
  const auto first_granule =
      slab_at_granule_.begin() + static_cast<ptrdiff_t>(FirstGranule(slab));
  unused_slabs_.push_back(*first_granule - 1);
  std::fill_n(first_granule, slab.run.granules, 0);
  return slab.run;
}

SlabHeap::Occupancy SlabHeap::GetOccupancy(uint32_t class_index) const {
  const Class& its_class = classes_[class_index];
  Occupancy occupancy;
  occupancy.block_bytes = its_class.block_bytes;
  occupancy.slots_per_slab = its_class.slots_per_slab;
  occupancy.free_slots = its_class.free_slots;
  if (!its_class.by_free_slots.empty()) {
    occupancy.least_live_slots =
        its_class.slots_per_slab - its_class.by_free_slots.rbegin()->first;
  }
  return occupancy;
}

SlabRun SlabHeap::EmptySparsestSlab(uint32_t class_index,
                                    std::vector<MovedBlock>* moved) {
  const auto& by_free_slots = classes_[class_index].by_free_slots;
  const uint64_t sparsest = by_free_slots.rbegin()->second;
  Slab& slab = SlabAtGranule(sparsest);
  for (uint64_t slot = 0; slot < slab.tags.size(); ++slot) {
    if (slab.tags[slot] == 0) continue;
    // The fullest of the others: the source is the last of them all.
    Slab& fullest = SlabAtGranule(by_free_slots.begin()->second);
    const uint64_t tag = slab.tags[slot];
    moved->push_back({tag, PlaceIn(&fullest, tag)});
  }
  const uint64_t free_slots_before = slab.free_slots.count();
  slab.free_slots.AssignFirst(slab.tags.size());
  Refile(slab, free_slots_before);
  return Remove(slab);
}

}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/handle_table.h"

#include <limits>

namespace firn::cpu {
namespace {

constexpr int kGenerationShift = 32;

}  // namespace

PhysicalHandle HandleTable::Add(uint32_t granules, uint64_t first_granule) {
  uint32_t index;
  if (free_indices_.empty()) {
    index = static_cast<uint32_t>(allocations_.size());
    allocations_.emplace_back();
    allocations_[index].generation = 1;
  } else {
    index = free_indices_.back();
    free_indices_.pop_back();
  }
  Allocation& allocation = allocations_[index];
  allocation.granules = granules;
  allocation.first_granule = first_granule;
  allocation.user_references = 1;
  allocation.mappings = 0;
  return HandleOf(index);
}

bool HandleTable::Find(PhysicalHandle handle, uint32_t* index) const {
  const auto candidate = static_cast<uint32_t>(handle);
  if (candidate >= allocations_.size()) return false;
  const Allocation& allocation = allocations_[candidate];
  if (allocation.generation != handle >> kGenerationShift ||
      allocation.user_references == 0) {
    return false;
  }
  *index = candidate;
  return true;
}

PhysicalHandle HandleTable::HandleOf(uint32_t index) const {
  return (PhysicalHandle{allocations_[index].generation} << kGenerationShift) |
         index;
}

bool HandleTable::DropUser(uint32_t index) {
  Allocation& allocation = allocations_[index];
  --allocation.user_references;
  return allocation.user_references == 0 && allocation.mappings == 0;
}

bool HandleTable::DropMapping(uint32_t index) {
  Allocation& allocation = allocations_[index];
  --allocation.mappings;
  return allocation.user_references == 0 && allocation.mappings == 0;
}

void HandleTable::Erase(uint32_t index) {
  Allocation& allocation = allocations_[index];
  allocation.granules = 0;
  // A place whose generations are used up is left empty.
  if (allocation.generation == std::numeric_limits<uint32_t>::max()) return;
  ++allocation.generation;
  free_indices_.push_back(index);
}

}  // namespace firn::cpu

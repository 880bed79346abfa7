// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/handle_table.h"

#include <limits>

namespace firn::cpu {

PhysicalHandle HandleTable::Add(const HandleTarget& target, bool imported) {
  uint32_t index;
  if (free_indices_.empty()) {
    index = static_cast<uint32_t>(handles_.size());
    handles_.emplace_back();
    handles_[index].generation = 1;
  } else {
    index = free_indices_.back();
    free_indices_.pop_back();
    --dead_;
  }
  Handle& handle = handles_[index];
  handle.target = target;
  handle.imported = imported;
  handle.user_references = 1;
  handle.mappings = 0;
  return ValueOf(index);
}

void HandleTable::Erase(uint32_t index) {
  ++dead_;
  // A place whose generations are used up is left empty.
  if (handles_[index].generation == std::numeric_limits<uint32_t>::max()) {
    return;
  }
  ++handles_[index].generation;
  free_indices_.push_back(index);
}

}  // namespace firn::cpu

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/idle_share.h"

#include <iterator>

namespace firn::bench {

void IdleShare::Add(uint64_t address) {
  const auto place = blocks_.insert(blocks_.end(), {address, false});
  places_[address] = place;
  if (boundary_ == blocks_.end()) boundary_ = place;
}

void IdleShare::Remove(uint64_t address) {
  const auto found = places_.find(address);
  if (found == places_.end()) return;
  const auto place = found->second;
  if (place->is_idle) --idle_blocks_;
  if (place == boundary_) ++boundary_;
  blocks_.erase(place);
  places_.erase(found);
}

std::optional<IdleShare::Change> IdleShare::Next() {
  const auto wanted =
      static_cast<uint64_t>(share_ * static_cast<double>(blocks_.size()));
  if (idle_blocks_ < wanted) {
    const auto block = boundary_++;
    block->is_idle = true;
    ++idle_blocks_;
    return Change{block->address, true};
  }
  if (idle_blocks_ > wanted) {
    boundary_ = std::prev(boundary_);
    boundary_->is_idle = false;
    --idle_blocks_;
    return Change{boundary_->address, false};
  }
  return std::nullopt;
}

}  // namespace firn::bench

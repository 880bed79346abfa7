// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/retained_prefixes.h"

#include <utility>

namespace firn::bench {

void RetainedPrefixes::Add(RetainedPrefix prefix) {
  size_t slot = slots_.size();
  if (free_slots_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  std::vector<size_t>& siblings = by_model_[prefix.model];
  bytes_ += prefix.bytes;
  slots_[slot] = {std::move(prefix), newest_, kNone, siblings.size()};
  siblings.push_back(slot);
  (newest_ == kNone ? oldest_ : slots_[newest_].newer) = slot;
  newest_ = slot;
}

RetainedPrefix RetainedPrefixes::Take(uint32_t model, size_t pick) {
  return Remove(by_model_[model][pick]);
}

RetainedPrefix RetainedPrefixes::TakeOldest() { return Remove(oldest_); }

RetainedPrefix RetainedPrefixes::Remove(size_t slot) {
  Slot& removed = slots_[slot];
  (removed.older == kNone ? oldest_ : slots_[removed.older].newer) =
      removed.newer;
  (removed.newer == kNone ? newest_ : slots_[removed.newer].older) =
      removed.older;
  std::vector<size_t>& siblings = by_model_[removed.prefix.model];
  siblings[removed.in_model] = siblings.back();
  slots_[siblings.back()].in_model = removed.in_model;
  siblings.pop_back();
  bytes_ -= removed.prefix.bytes;
  free_slots_.push_back(slot);
  return std::move(removed.prefix);
}

void RetainedPrefixes::Clear() {
  slots_.clear();
  free_slots_.clear();
  for (std::vector<size_t>& slots : by_model_) slots.clear();
  oldest_ = newest_ = kNone;
  bytes_ = 0;
}

}  // namespace firn::bench

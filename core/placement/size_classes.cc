// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/size_classes.h"

#include <algorithm>

#include "absl/numeric/bits.h"

namespace firn {
namespace {

constexpr uint32_t kExactQuanta = 16;
constexpr uint32_t kSizesPerOctave = 8;
constexpr uint32_t kSmallWindowsPerGranule = 32;
constexpr uint32_t kGrownWindowsPerGranule = 4;
constexpr uint32_t kLimitsPerGranule = 8;
constexpr uint32_t kSlotsOfMiddleWindow = 4;
constexpr uint32_t kMostSlotsOfMiddleWindow = 8;

}  // namespace

SizeClasses::SizeClasses(uint32_t quanta_per_granule)
    : quanta_per_granule_(quanta_per_granule),
      limit_quanta_(quanta_per_granule / kLimitsPerGranule) {
  uint32_t step = 1;
  for (uint32_t slot = 1; slot < limit_quanta_; slot += step) {
    if (slot >= kExactQuanta && (slot & (slot - 1)) == 0) {
      step = slot / kSizesPerOctave;
    }
    slot_quanta_.push_back(slot);
  }
  class_of_quanta_.resize(limit_quanta_, static_cast<uint16_t>(count()));
  uint16_t size_class = 0;
  for (uint32_t quanta = 1; quanta < limit_quanta_; ++quanta) {
    while (size_class < count() && slot_quanta_[size_class] < quanta) {
      ++size_class;
    }
    class_of_quanta_[quanta] = size_class;
  }
}

uint32_t SizeClasses::ClassOf(uint32_t quanta,
                              uint32_t alignment_quanta) const {
  uint32_t size_class = class_of_quanta_[quanta];
  while (size_class < count() &&
         slot_quanta_[size_class] % alignment_quanta != 0) {
    ++size_class;
  }
  return size_class;
}

uint32_t SizeClasses::slots_per_window(uint32_t size_class, bool grown) const {
  const uint32_t slot = slot_quanta_[size_class];
  const uint32_t small_window = quanta_per_granule_ / kSmallWindowsPerGranule;
  if (slot > small_window) {
    return grown ? SlotsThatFillQuarters(slot) : kSlotsOfMiddleWindow;
  }
  const uint32_t window =
      grown ? quanta_per_granule_ / kGrownWindowsPerGranule : small_window;
  return std::max(1u, window / slot);
}

uint32_t SizeClasses::SlotsThatFillQuarters(uint32_t slot_quanta) const {
  const uint32_t quarter = quanta_per_granule_ / kGrownWindowsPerGranule;
  uint32_t best_slots = 0;
  uint64_t best_window = 0;
  uint64_t best_rest = 0;
  for (uint32_t slots = kSlotsOfMiddleWindow; slots <= kMostSlotsOfMiddleWindow;
       ++slots) {
    const uint64_t window = uint64_t{slots} * slot_quanta;
    const uint64_t rest = (quarter - window % quarter) % quarter;
    // By what is lost for each quantum of the window; fewer slots in a tie.
    if (best_slots > 0 && rest * best_window >= best_rest * window) continue;
    best_slots = slots;
    best_window = window;
    best_rest = rest;
  }
  return best_slots;
}

uint32_t SizeClasses::alignment_quanta(uint32_t size_class) const {
  const uint32_t slot = slot_quanta_[size_class];
  const uint32_t power = slot & (~slot + 1);
  return std::min(power,
                  std::max(1u, quanta_per_granule_ / kSmallWindowsPerGranule));
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/pin_account.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace firn::testing::property {

void PinAccount::Add(Pin pin, const LiveBlock& block, std::string reason) {
  Held held;
  held.pin = std::move(pin);
  held.bytes = block.content.bytes;
  held.reason = std::move(reason);
  held_.push_back(std::move(held));
}

void PinAccount::GiveUp(uint32_t number) {
  if (held_.empty()) return;
  held_.erase(held_.begin() +
              static_cast<std::ptrdiff_t>(number % held_.size()));
}

void* PinAccount::BlockOf(uint32_t number) const {
  return held_.empty() ? nullptr : held_[number % held_.size()].pin.ptr();
}

bool PinAccount::IsPinned(const void* ptr) const {
  return !ReasonOf(ptr).empty();
}

std::string PinAccount::ReasonOf(const void* ptr) const {
  for (const Held& held : held_) {
    if (held.pin.ptr() == ptr) return held.reason;
  }
  return "";
}

void PinAccount::Added(const LiveBlock& block) {
  if (block.memory_class == MemoryClass::kMovable) return;
  unmovable_[block.content.ptr] = block.content.bytes;
  had_unmovable_ = true;
}

void PinAccount::Removed(const LiveBlock& block) {
  unmovable_.erase(block.content.ptr);
}

absl::Status PinAccount::AfterOperation(const Pool& /*pool*/,
                                        const PoolStats& stats,
                                        bool /*was_faulted*/) {
  std::map<void*, uint64_t> bytes_of;
  for (const Held& held : held_) bytes_of[held.pin.ptr()] = held.bytes;
  uint64_t bytes = 0;
  uint64_t filled_granules = 0;
  for (const auto& [ptr, block_bytes] : bytes_of) {
    bytes += block_bytes;
    if (unmovable_.count(ptr) > 0) continue;
    filled_granules += block_bytes / stats.granule_bytes;
  }
  for (const auto& [ptr, block_bytes] : unmovable_) {
    filled_granules += block_bytes / stats.granule_bytes;
  }
  const bool has_some = !bytes_of.empty() || !unmovable_.empty();
  const uint64_t used_granules = stats.used_bytes / stats.granule_bytes;
  if (stats.pinned_blocks == bytes_of.size() && stats.pinned_bytes == bytes &&
      stats.pinned_granules >= filled_granules &&
      stats.pinned_granules <= used_granules &&
      // What was freed may be in use yet.
      (stats.pinned_granules > 0) >= has_some &&
      (stats.pinned_granules == 0 || has_some || had_unmovable_)) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(
      "pinned_blocks: ", stats.pinned_blocks, " of ", stats.pinned_bytes,
      " bytes on ", stats.pinned_granules, " granules, instead of ",
      bytes_of.size(), " of ", bytes, " bytes on ", filled_granules,
      " or more of the ", used_granules, " granules used"));
}

}  // namespace firn::testing::property

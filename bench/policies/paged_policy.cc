// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/paged_policy.h"

#include "bench/policies/policy_errors.h"
#include "bench/policies/size_rounding.h"

namespace firn::bench {
namespace {

// Blocks with pages of their own have addresses from here on, one granule
// apart: as numbers only.
constexpr uint64_t kWholeBase = uint64_t{1} << 62;

}  // namespace

PagedPolicy::PagedPolicy(const PolicyOptions& options)
    : granule_bytes_(options.granule_bytes),
      capacity_granules_(options.capacity_bytes / options.granule_bytes),
      ledger_(options.cost) {}

absl::StatusOr<uint64_t> PagedPolicy::Allocate(uint64_t bytes,
                                               uint32_t /*stream*/) {
  if (bytes > granule_bytes_ / 2) return AllocateWhole(bytes);
  const SizeClass size_class = SizeClassOf(bytes);
  if (size_class.index >= open_pages_.size()) {
    open_pages_.resize(size_class.index + 1);
  }
  LowestBitSet& open = open_pages_[size_class.index];
  uint64_t number = open.Lowest();
  if (number == LowestBitSet::kNone) {
    if (held_granules_ == capacity_granules_) return NoRoom();
    number = OpenPage(size_class);
  }
  Page& page = pages_[number];
  const uint64_t slot = page.free_slots.Lowest();
  page.free_slots.Erase(slot);
  page.slot_bytes[slot] = bytes;
  ++page.live_slots;
  if (page.free_slots.empty()) open.Erase(number);
  live_bytes_ += bytes;
  return number * granule_bytes_ + slot * size_class.block_bytes;
}

uint64_t PagedPolicy::OpenPage(SizeClass size_class) {
  uint64_t number = closed_pages_.Lowest();
  if (number == LowestBitSet::kNone) {
    number = pages_.size();
    pages_.emplace_back();
  } else {
    closed_pages_.Erase(number);
  }
  const uint64_t slots = granule_bytes_ / size_class.block_bytes;
  Page& page = pages_[number];
  page.size_class = size_class;
  page.free_slots.AssignFirst(slots);
  page.slot_bytes.assign(slots, 0);
  open_pages_[size_class.index].Insert(number);
  ++held_granules_;
  ledger_.ChargeNewRun(1);
  return number;
}

absl::Status PagedPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  if (address >= kWholeBase) return FreeWhole(address);
  const uint64_t number = address / granule_bytes_;
  if (number >= pages_.size()) return NotABlock(address);
  Page& page = pages_[number];
  if (page.live_slots == 0) return NotABlock(address);
  const uint64_t offset_bytes = address % granule_bytes_;
  const uint64_t slot = offset_bytes / page.size_class.block_bytes;
  if (offset_bytes % page.size_class.block_bytes != 0 ||
      slot >= page.slot_bytes.size() || page.slot_bytes[slot] == 0) {
    return NotABlock(address);
  }
  live_bytes_ -= page.slot_bytes[slot];
  page.slot_bytes[slot] = 0;
  LowestBitSet& open = open_pages_[page.size_class.index];
  if (page.free_slots.empty()) open.Insert(number);
  page.free_slots.Insert(slot);
  if (--page.live_slots == 0) {
    open.Erase(number);
    closed_pages_.Insert(number);
    --held_granules_;
    ledger_.ChargeRelease(1);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> PagedPolicy::AllocateWhole(uint64_t bytes) {
  const uint64_t granules = DivideUp(bytes, granule_bytes_);
  if (granules > capacity_granules_ - held_granules_) return NoRoom();
  uint64_t number = unused_whole_blocks_.Lowest();
  if (number == LowestBitSet::kNone) {
    number = whole_blocks_.size();
    whole_blocks_.push_back(bytes);
  } else {
    unused_whole_blocks_.Erase(number);
    whole_blocks_[number] = bytes;
  }
  held_granules_ += granules;
  live_bytes_ += bytes;
  ledger_.ChargeNewRun(granules);
  return kWholeBase + number * granule_bytes_;
}

absl::Status PagedPolicy::FreeWhole(uint64_t address) {
  const uint64_t number = (address - kWholeBase) / granule_bytes_;
  if (address % granule_bytes_ != 0 || number >= whole_blocks_.size() ||
      whole_blocks_[number] == 0) {
    return NotABlock(address);
  }
  const uint64_t granules = DivideUp(whole_blocks_[number], granule_bytes_);
  live_bytes_ -= whole_blocks_[number];
  whole_blocks_[number] = 0;
  unused_whole_blocks_.Insert(number);
  held_granules_ -= granules;
  ledger_.ChargeRelease(granules);
  return absl::OkStatus();
}

PolicyUsage PagedPolicy::usage() const {
  const uint64_t held_bytes = held_granules_ * granule_bytes_;
  return {held_bytes, held_bytes, held_granules_};
}

PolicyReport PagedPolicy::Report() {
  return ledger_.Report(live_bytes_, granule_bytes_);
}

}  // namespace firn::bench

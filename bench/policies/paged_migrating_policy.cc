// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/paged_migrating_policy.h"

#include "bench/policies/policy_errors.h"
#include "firn/core/placement/size_rounding.h"
#include "firn/core/placement/slab_classes.h"
#include "firn/vmm/units.h"

namespace firn::bench {
namespace {

constexpr uint64_t kFirstIdentity = uint64_t{1} << 62;
constexpr uint64_t kIdentityStride = kQuantumBytes;

}  // namespace

PagedMigratingPolicy::PagedMigratingPolicy(const PolicyOptions& options)
    : compaction_(options.compaction),
      pages_(options, options.compaction),
      copy_cost_(options.cost),
      trigger_(options.granule_bytes,
               options.tolerated_waste_percent.value_or(
                   BackgroundTrigger::kToleratedWastePercent)) {}

absl::StatusOr<uint64_t> PagedMigratingPolicy::Allocate(uint64_t bytes,
                                                        uint32_t /*stream*/) {
  const bool needs_own_pages = pages_.NeedsOwnPages(bytes);
  SlabClass size_class;
  uint64_t new_pages = 0;
  if (needs_own_pages) {
    new_pages = DivideUp(bytes, pages_.page_bytes());
  } else {
    size_class = SlabClassOf(bytes);
    new_pages = pages_.HasFreeSlot(size_class) ? 0 : 1;
  }
  const double start_us = SpentUs();
  const uint64_t emptied_before = pages_emptied_;
  if (!MakeRoom(new_pages)) return NoRoom();

  uint64_t number = blocks_.size();
  if (unused_blocks_.empty()) {
    blocks_.emplace_back();
  } else {
    number = unused_blocks_.back();
    unused_blocks_.pop_back();
  }
  blocks_[number].bytes = bytes;
  if (needs_own_pages) {
    pages_.TakeOwnPages(bytes);
  } else {
    blocks_[number].address = pages_.Place(size_class, number + 1);
  }
  if (pages_emptied_ != emptied_before) {
    pause_us_.push_back(SpentUs() - start_us);
  }
  live_bytes_ += bytes;
  return kFirstIdentity + number * kIdentityStride;
}

absl::Status PagedMigratingPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  if (address < kFirstIdentity || address % kIdentityStride != 0) {
    return NotABlock(address);
  }
  const uint64_t number = (address - kFirstIdentity) / kIdentityStride;
  if (number >= blocks_.size() || blocks_[number].bytes == 0) {
    return NotABlock(address);
  }
  Block& block = blocks_[number];
  if (pages_.NeedsOwnPages(block.bytes)) {
    pages_.GiveOwnPages(block.bytes);
  } else {
    pages_.Free(block.address);
  }
  live_bytes_ -= block.bytes;
  block.bytes = 0;
  unused_blocks_.push_back(number);
  return absl::OkStatus();
}

bool PagedMigratingPolicy::MakeRoom(uint64_t pages) {
  if (pages <= pages_.free_pages()) return true;
  if (compaction_ == CompactionMode::kOff ||
      pages - pages_.free_pages() > pages_.RecoverablePages()) {
    return false;
  }
  while (pages > pages_.free_pages()) EmptyOnePage();
  return true;
}

bool PagedMigratingPolicy::IsWasteful() const {
  const uint64_t recoverable_bytes =
      pages_.RecoverablePages() * pages_.page_bytes();
  return trigger_.IsWasteful(live_bytes_ + recoverable_bytes, live_bytes_);
}

absl::Status PagedMigratingPolicy::Tick(int64_t /*time_us*/) {
  if (compaction_ != CompactionMode::kBackground || !trigger_.Tick() ||
      !IsWasteful()) {
    return absl::OkStatus();
  }
  RunPass();
  return absl::OkStatus();
}

absl::StatusOr<bool> PagedMigratingPolicy::TickIdle(int64_t /*time_us*/) {
  if (compaction_ != CompactionMode::kBackground || !IsWasteful()) {
    return false;
  }
  if (!trigger_.TickIdle()) return true;
  RunPass();
  return false;
}

void PagedMigratingPolicy::RunPass() {
  const double start_us = SpentUs();
  const uint64_t emptied_before = pages_emptied_;
  do {
    EmptyOnePage();
  } while (IsWasteful());
  pages_.ReleaseEmptied();
  trigger_.PassDone(pages_emptied_ - emptied_before);
  pause_us_.push_back(SpentUs() - start_us);
}

void PagedMigratingPolicy::EmptyOnePage() {
  moved_.clear();
  pages_.EmptyCheapestPage(&moved_);
  uint64_t bytes = 0;
  for (const SlabHeap::MovedBlock& moved : moved_) {
    Block& block = blocks_[moved.tag - 1];
    block.address = moved.address;
    bytes += block.bytes;
  }
  bytes_copied_ += bytes;
  copies_us_ += copy_cost_.Copy(bytes);
  ++pages_emptied_;
}

PolicyReport PagedMigratingPolicy::Report() {
  PolicyReport report = pages_.Report(live_bytes_);
  report.bytes_copied = bytes_copied_;
  report.granules_moved = pages_emptied_;
  report.bytes_recovered = pages_emptied_ * pages_.page_bytes();
  report.pause_us = pause_us_;
  return report;
}

}  // namespace firn::bench

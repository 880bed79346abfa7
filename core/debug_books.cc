// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/debug_books.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

using State = DebugBlock::State;

void Erase(DebugBlock* block, std::deque<DebugBlock*>* list) {
  // Mostly the oldest one.
  list->erase(std::find(list->begin(), list->end(), block));
}

void Count(const DebugBlock& block, DebugBooks::Totals* totals) {
  if (block.state == State::kLive) {
    totals->live_guard_bytes += block.held_bytes - block.bytes;
    return;
  }
  ++totals->freed_blocks;
  totals->freed_bytes += block.bytes;
  totals->freed_held_bytes += block.held_bytes;
  if (block.state == State::kQuarantined) {
    totals->quarantined_held_bytes += block.held_bytes;
  }
}

}  // namespace

DebugBlock* DebugBooks::Add(DebugBlock block) {
  auto added = std::make_unique<DebugBlock>(std::move(block));
  DebugBlock* const result = added.get();
  blocks_[result->start] = std::move(added);
  totals_.live_guard_bytes += result->held_bytes - result->bytes;
  return result;
}

DebugBlock* DebugBooks::Find(DevicePtr address) const {
  auto behind = blocks_.upper_bound(address);
  if (behind == blocks_.begin()) return nullptr;
  DebugBlock* const block = std::prev(behind)->second.get();
  return address - block->start < block->held_bytes ? block : nullptr;
}

void DebugBooks::SetFreed(DebugBlock* block) {
  totals_.live_guard_bytes -= block->held_bytes - block->bytes;
  block->state = State::kFreed;
  ++totals_.freed_blocks;
  totals_.freed_bytes += block->bytes;
  totals_.freed_held_bytes += block->held_bytes;
  freed_.push_back(block);
}

void DebugBooks::SetQuarantined(DebugBlock* block) {
  Erase(block, &freed_);
  block->state = State::kQuarantined;
  totals_.quarantined_held_bytes += block->held_bytes;
  quarantine_.push_back(block);
}

void DebugBooks::Remove(DebugBlock* block) {
  if (block->state == State::kLive) {
    totals_.live_guard_bytes -= block->held_bytes - block->bytes;
  } else {
    --totals_.freed_blocks;
    totals_.freed_bytes -= block->bytes;
    totals_.freed_held_bytes -= block->held_bytes;
  }
  if (block->state == State::kFreed) Erase(block, &freed_);
  if (block->state == State::kQuarantined) {
    totals_.quarantined_held_bytes -= block->held_bytes;
    Erase(block, &quarantine_);
  }
  blocks_.erase(block->start);
}

std::vector<DebugBlock*> DebugBooks::Freed() const {
  return {freed_.begin(), freed_.end()};
}

void DebugBooks::ForEach(
    absl::FunctionRef<void(DebugBlock* block)> visit) const {
  for (const auto& [start, block] : blocks_) visit(block.get());
}

absl::Status DebugBooks::CheckInvariants() const {
  Totals totals;
  DevicePtr end = 0;
  for (const auto& [start, block] : blocks_) {
    if (start != block->start || start < end ||
        block->front_bytes() + block->bytes > block->held_bytes) {
      return absl::InternalError(
          absl::StrCat("debug: the block at 0x", absl::Hex(block->address),
                       " overlaps the one before it, or its own guard bands"));
    }
    end = start + block->held_bytes;
    Count(*block, &totals);
  }
  if (totals.live_guard_bytes != totals_.live_guard_bytes ||
      totals.freed_blocks != totals_.freed_blocks ||
      totals.freed_blocks != freed_.size() + quarantine_.size() ||
      totals.freed_bytes != totals_.freed_bytes ||
      totals.freed_held_bytes != totals_.freed_held_bytes ||
      totals.quarantined_held_bytes != totals_.quarantined_held_bytes) {
    return absl::InternalError(absl::StrCat(
        "debug: ", totals.freed_blocks, " freed blocks of ",
        totals.freed_held_bytes, " bytes with guard bands, counted ",
        totals_.freed_blocks, " of ", totals_.freed_held_bytes));
  }
  return absl::OkStatus();
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/history_account.h"

#include "absl/strings/str_cat.h"

namespace firn::testing::property {
namespace {

constexpr uint64_t kOperationsPerLook = 24;

uint64_t AddressOf(const LiveBlock& block) {
  return reinterpret_cast<uintptr_t>(block.content.ptr);
}

}  // namespace

void HistoryAccount::Added(const LiveBlock& block) {
  live_[AddressOf(block)] = block.content.bytes;
}

void HistoryAccount::Removed(const LiveBlock& block) {
  live_.erase(AddressOf(block));
}

absl::Status HistoryAccount::AfterOperation(const Pool& pool,
                                            const PoolStats& /*stats*/,
                                            bool was_faulted) {
  if (++operations_ % kOperationsPerLook != 0 && !was_faulted) {
    return absl::OkStatus();
  }
  const MemorySnapshot snapshot = pool.TakeMemorySnapshot();
  const absl::Status checked = CheckHistory(snapshot.history);
  return checked.ok() ? CheckSnapshot(snapshot) : checked;
}

absl::Status HistoryAccount::CheckHistory(const History& history) const {
  if (history.overwritten > 0) return absl::OkStatus();
  std::map<uint64_t, uint64_t> live;
  for (const HistoryEvent& event : history.events) {
    if (event.kind == HistoryKind::kAllocate) {
      if (live.emplace(event.address, event.bytes).second) continue;
      return absl::InternalError("history: a block is allocated twice");
    }
    if (event.kind != HistoryKind::kFree &&
        event.kind != HistoryKind::kFreeRequested) {
      continue;
    }
    const auto found = live.find(event.address);
    if (found == live.end() || found->second != event.bytes) {
      return absl::InternalError("history: another block is freed than lives");
    }
    live.erase(found);
  }
  if (live == live_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("history: a replay ends with ",
                                          live.size(), " blocks, not with ",
                                          live_.size()));
}

absl::Status HistoryAccount::CheckSnapshot(
    const MemorySnapshot& snapshot) const {
  std::map<uint64_t, uint64_t> live;
  for (const MemorySegment& segment : snapshot.segments) {
    uint64_t end = segment.address;
    for (const MemoryBlock& block : segment.blocks) {
      if (block.address != end || block.requested_bytes > block.bytes) {
        return absl::InternalError("snapshot: a gap, or a block too large");
      }
      end += block.bytes;
      if (block.state != MemoryBlockState::kAllocated) continue;
      live.emplace(block.address, block.requested_bytes);
    }
    if (end != segment.address + segment.bytes) {
      return absl::InternalError("snapshot: blocks do not fill the segment");
    }
  }
  if (live == live_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("snapshot: ", live.size(),
                                          " live blocks, of ", live_.size()));
}

}  // namespace firn::testing::property

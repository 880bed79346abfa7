// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/live_blocks.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace firn::bench {

absl::StatusOr<uint64_t> LiveBlocks::Add(uint64_t pointer, uint64_t bytes) {
  if (bytes > kMaxLiveBytes - live_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        bytes, " bytes take live memory beyond 4 EiB; no device has that"));
  }
  const LiveBlock block{ids_.Take(), bytes};
  blocks_.emplace(pointer, block);
  live_bytes_ += bytes;
  return block.id;
}

std::optional<LiveBlock> LiveBlocks::Remove(uint64_t pointer) {
  const auto found = blocks_.find(pointer);
  if (found == blocks_.end()) return std::nullopt;
  const LiveBlock block = found->second;
  blocks_.erase(found);
  ids_.Return(block.id);
  live_bytes_ -= block.bytes;
  return block;
}

void LiveBlocks::Clear() {
  blocks_.clear();
  ids_.Clear();
  live_bytes_ = 0;
}

uint32_t HandleNumbers::NumberOf(uint64_t handle) {
  if (handle == 0) return 0;
  const uint32_t next = static_cast<uint32_t>(numbers_.size()) + 1;
  return numbers_.emplace(handle, next).first->second;
}

}  // namespace firn::bench

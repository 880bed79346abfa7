// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/idle_blocks.h"

#include <utility>

namespace firn {

void IdleBlocks::Add(uint64_t key, uint64_t bytes,
                     std::vector<StreamToken> work) {
  Remove(key);
  Block& block = blocks_[key];
  block.bytes = bytes;
  block.declaration = ++declarations_;
  block.work = std::move(work);
  bytes_ += bytes;
}

void IdleBlocks::Remove(uint64_t key) {
  const auto found = blocks_.find(key);
  if (found == blocks_.end()) return;
  bytes_ -= found->second.bytes;
  blocks_.erase(found);
}

bool IdleBlocks::IsIdle(uint64_t key, uint64_t declarations) {
  const auto found = blocks_.find(key);
  if (found == blocks_.end() || found->second.declaration > declarations) {
    return false;
  }
  std::vector<StreamToken>& work = found->second.work;
  while (!work.empty()) {
    if (!tracker_->IsDone(work.back()).value_or(false)) return false;
    work.pop_back();
  }
  return true;
}

}  // namespace firn

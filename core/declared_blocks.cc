// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/declared_blocks.h"

#include <utility>

namespace firn {

void DeclaredBlocks::Add(uint64_t key, uint64_t bytes, Declaration what,
                         std::vector<StreamToken> work) {
  Remove(key);
  Block& block = blocks_[key];
  block.bytes = bytes;
  block.declaration = ++declarations_;
  block.what = what;
  block.work = std::move(work);
  Total& total = totals_[IndexOf(what)];
  ++total.count;
  total.bytes += bytes;
}

void DeclaredBlocks::Erase(uint64_t key) {
  const auto found = blocks_.find(key);
  if (found == blocks_.end()) return;
  Total& total = totals_[IndexOf(found->second.what)];
  --total.count;
  total.bytes -= found->second.bytes;
  blocks_.erase(found);
}

void DeclaredBlocks::NoteUse(uint64_t key) {
  const auto found = blocks_.find(key);
  if (found == blocks_.end()) return;
  if (found->second.what != Declaration::kReadOnly) Remove(key);
}

bool DeclaredBlocks::KeepsTo(Declaration what, uint64_t key,
                             uint64_t declarations) {
  const auto found = blocks_.find(key);
  if (found == blocks_.end() || found->second.what < what ||
      found->second.declaration > declarations) {
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

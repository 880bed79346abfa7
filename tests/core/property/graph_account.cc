// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/graph_account.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace firn::testing::property {
namespace {

uintptr_t BeginOf(const LiveBlock& block) {
  return reinterpret_cast<uintptr_t>(block.content.ptr);
}

}  // namespace

bool GraphAccount::any_open() const {
  return std::any_of(pools_.begin(), pools_.end(),
                     [](const auto& one) { return one.second.is_open; });
}

bool GraphAccount::IsOpen(GraphPoolId id) const {
  const auto found = pools_.find(id);
  return found != pools_.end() && found->second.is_open;
}

bool GraphAccount::HasUser(const std::vector<StreamHandle>& streams) const {
  for (const auto& [id, pool] : pools_) {
    if (!pool.is_open) continue;
    if (streams.empty() && pool.is_for_thread) return true;
    for (const StreamHandle stream : streams) {
      if (pool.streams.count(stream) > 0) return true;
    }
  }
  return false;
}

void GraphAccount::Begin(Pool* pool, GraphPoolId id,
                         const std::vector<StreamHandle>& streams) {
  pool_ = pool;
  are_used_ = true;
  GraphPool& begun = pools_[id];
  ++begun.uses;
  begun.is_open = true;
  begun.is_for_thread = streams.empty();
  begun.streams.insert(streams.begin(), streams.end());
}

void GraphAccount::End(GraphPoolId id) {
  GraphPool& ended = pools_[id];
  ended.is_open = false;
  ended.is_for_thread = false;
  ended.streams.clear();
}

void GraphAccount::Release(GraphPoolId id) {
  if (--pools_[id].uses > 0) return;
  pools_.erase(id);
  for (auto block = live_.begin(); block != live_.end();) {
    block = block->second.first == id ? live_.erase(block) : std::next(block);
  }
  for (auto block = kept_.begin(); block != kept_.end();) {
    block = block->second.pool == id ? kept_.erase(block) : std::next(block);
  }
}

std::optional<GraphPoolId> GraphAccount::OwnerFor(StreamHandle stream) const {
  std::optional<GraphPoolId> of_thread;
  for (const auto& [id, pool] : pools_) {
    if (!pool.is_open) continue;
    if (pool.streams.count(stream) > 0) return id;
    if (pool.is_for_thread) of_thread = id;
  }
  return of_thread;
}

void GraphAccount::Fail(const LiveBlock& block, const char* what) {
  if (!failure_.empty()) return;
  failure_ =
      absl::StrCat("graph-private pools: the block at 0x",
                   absl::Hex(BeginOf(block)), " + ", block.content.bytes, what);
}

void GraphAccount::TakeBack(const LiveBlock& block,
                            const std::optional<GraphPoolId>& owner) {
  const uintptr_t begin = BeginOf(block);
  const auto same = kept_.find(begin);
  if (same != kept_.end()) {
    const KeptBlock& kept = same->second;
    if (kept.pool != owner) Fail(block, " is kept for another pool");
    if (!kept.may_be_reused || kept.block.stream != block.stream) {
      Fail(block, " is used on several streams that nothing orders");
    }
    if (kept.block.domain != block.domain ||
        kept.block.memory_class != block.memory_class) {
      Fail(block, " is of another domain or class");
    }
    kept_.erase(same);
    ++reuses_;
  }
  const auto after = kept_.lower_bound(begin);
  if (after != kept_.end() && after->first < begin + block.content.bytes) {
    Fail(block, " overlaps a block that keeps its place (I12)");
  }
  if (after == kept_.begin()) return;
  const auto before = std::prev(after);
  if (before->first + before->second.block.content.bytes > begin) {
    Fail(block, " lies in a block that keeps its place (I12)");
  }
}

void GraphAccount::Added(const LiveBlock& block) {
  const std::optional<GraphPoolId> owner = OwnerFor(block.stream);
  if (!kept_.empty()) TakeBack(block, owner);
  if (owner.has_value()) {
    live_[BeginOf(block)] = {*owner, block.content.bytes};
  }
}

void GraphAccount::Removed(const LiveBlock& block) {
  const auto owned = live_.find(BeginOf(block));
  if (owned == live_.end()) return;
  KeptBlock kept;
  kept.pool = owned->second.first;
  kept.block = block;
  const RecordedUses* const uses = uses_->Find(block.content.ptr);
  kept.may_be_reused = block.memory_class != MemoryClass::kExportable &&
                       (uses == nullptr ||
                        std::all_of(uses->streams.begin(), uses->streams.end(),
                                    [&block](StreamHandle stream) {
                                      return stream == block.stream;
                                    }));
  kept_[owned->first] = kept;
  live_.erase(owned);
}

void GraphAccount::StreamGone(StreamHandle stream) {
  for (auto& [id, pool] : pools_) pool.streams.erase(stream);
  for (auto& [begin, kept] : kept_) {
    if (kept.block.stream == stream) kept.may_be_reused = false;
  }
}

absl::Status GraphAccount::AfterOperation(const Pool& /*pool*/,
                                          const PoolStats& stats,
                                          bool /*was_faulted*/) {
  if (!failure_.empty()) return absl::InternalError(failure_);
  uint64_t bytes = 0;
  for (const auto& [begin, owned] : live_) bytes += owned.second;
  for (const auto& [begin, kept] : kept_) bytes += kept.block.content.bytes;
  if (stats.graph_pools == pools_.size() && stats.graph_pool_bytes == bytes) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(
      "graph_pools: ", stats.graph_pools, " of ", stats.graph_pool_bytes,
      " bytes instead of ", pools_.size(), " of ", bytes));
}

void GraphAccount::LetGo() {
  while (!pools_.empty()) {
    const GraphPoolId id = pools_.begin()->first;
    const bool was_open = IsOpen(id);
    if (was_open) End(id);
    if ((was_open && !pool_->EndPool(id).ok()) ||
        !pool_->ReleasePool(id).ok()) {
      failure_ = "a pool was not released";
    }
    Release(id);
  }
}

}  // namespace firn::testing::property

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool with DebugOptions passes on to the pool beneath, or says in its
// stead: guards are nobody's, and what is in quarantine is freed.

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "firn/core/debug_impl.h"
#include "firn/vmm/launch_gate.h"

namespace firn {
namespace {

// No less than nothing: other threads are between the books here and beneath.
void Subtract(uint64_t part, uint64_t* figure) {
  *figure -= std::min(part, *figure);
}

// What the pool beneath counts as live beyond what is.
struct Excess {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
};

void AddExcess(const DebugBlock& block, Excess* excess) {
  if (block.state == DebugBlock::State::kLive) {
    excess->bytes += block.held_bytes - block.bytes;
    return;
  }
  excess->bytes += block.held_bytes;
  ++excess->blocks;
}

}  // namespace

// --- Figures ---

PoolStats Pool::DebugImpl::GetStats() {
  MutexLock lock(&mutex_);
  PoolStats stats = beneath_->GetStats();
  const DebugBooks::Totals& totals = books_.totals();
  Subtract(totals.live_guard_bytes + totals.freed_held_bytes,
           &stats.live_bytes);
  Subtract(totals.freed_blocks, &stats.live_allocations);
  stats.pending_free_bytes += totals.freed_bytes;
  stats.frees += totals.freed_blocks;
  Subtract(undone_, &stats.allocations);
  Subtract(undone_, &stats.frees);
  Subtract(retries_, &stats.failed_allocations);
  stats.refused_frees += refused_frees_;
  return stats;
}

PoolUsage Pool::DebugImpl::GetUsage() {
  MutexLock lock(&mutex_);
  PoolUsage usage = beneath_->GetUsage();
  const DebugBooks::Totals& totals = books_.totals();
  Subtract(totals.live_guard_bytes + totals.freed_held_bytes,
           &usage.live_bytes);
  Subtract(retries_, &usage.failed_allocations);
  return usage;
}

std::vector<TagStats> Pool::DebugImpl::GetTagStats() const {
  MutexLock lock(&mutex_);
  std::map<Tag, Excess> excess;
  books_.ForEach(
      [&](DebugBlock* block) { AddExcess(*block, &excess[block->tag]); });
  std::vector<TagStats> all = beneath_->GetTagStats();
  for (TagStats& stats : all) {
    Subtract(excess[stats.tag].bytes, &stats.live_bytes);
    Subtract(excess[stats.tag].blocks, &stats.live_allocations);
  }
  return all;
}

std::vector<DomainStats> Pool::DebugImpl::GetDomainStats() const {
  MutexLock lock(&mutex_);
  std::map<DomainId, Excess> excess;
  books_.ForEach(
      [&](DebugBlock* block) { AddExcess(*block, &excess[block->domain]); });
  std::vector<DomainStats> all = beneath_->GetDomainStats();
  for (DomainStats& stats : all) {
    Subtract(excess[stats.id].bytes, &stats.live_bytes);
    Subtract(excess[stats.id].blocks, &stats.live_allocations);
  }
  return all;
}

FragmentationStats Pool::DebugImpl::GetFragmentation() {
  return beneath_->GetFragmentation();
}

History Pool::DebugImpl::GetHistory() const { return beneath_->GetHistory(); }

MemorySnapshot Pool::DebugImpl::TakeMemorySnapshot() {
  return beneath_->TakeMemorySnapshot();
}

LadderStats Pool::DebugImpl::GetLadderStats() const {
  return beneath_->GetLadderStats();
}

// --- What is passed on ---

absl::Status Pool::DebugImpl::ReleaseStream(StreamHandle stream) {
  // Events outlive their stream.
  return beneath_->ReleaseStream(stream);
}

absl::StatusOr<Domain> Pool::DebugImpl::CreateDomain(
    const DomainOptions& options) {
  return beneath_->CreateDomain(options);
}

absl::Status Pool::DebugImpl::SetLimit(MemoryLimit limit) {
  return beneath_->SetLimit(limit);
}

absl::Status Pool::DebugImpl::SetDomainLimit(DomainId domain,
                                             MemoryLimit limit) {
  return beneath_->SetDomainLimit(domain, limit);
}

absl::StatusOr<Tag> Pool::DebugImpl::RegisterTag(absl::string_view name) {
  const absl::StatusOr<Tag> tag = beneath_->RegisterTag(name);
  if (!tag.ok()) return tag;
  MutexLock lock(&mutex_);
  tag_names_[*tag] = std::string(name);
  return tag;
}

bool Pool::DebugImpl::MayCallBack(StreamHandle stream) const {
  return beneath_->MayCallBack(stream);
}

absl::StatusOr<CompactionReport> Pool::DebugImpl::Compact(
    const CompactOptions& options) {
  Reports reports;
  {
    MutexLock lock(&mutex_);
    Settle(&reports);
    ++passes_;
    changed_.SignalAll();
  }
  Deliver(reports);
  absl::StatusOr<CompactionReport> report = beneath_->Compact(options);
  MutexLock lock(&mutex_);
  --passes_;
  changed_.SignalAll();
  return report;
}

absl::StatusOr<uint64_t> Pool::DebugImpl::Trim(uint64_t keep_bytes) {
  const bool may_wait = !launch_gate()->ThisThreadIsInside();
  bool is_in_capture = false;
  {
    MutexLock lock(&mutex_);
    is_in_capture = open_graph_pools_ > 0;
  }
  if (may_wait && !is_in_capture) WaitForDevice().IgnoreError();
  Reports reports;
  {
    MutexLock lock(&mutex_);
    EmptyQuarantine(may_wait && !is_in_capture, &reports);
  }
  Deliver(reports);
  return beneath_->Trim(keep_bytes);
}

// --- Graph-private pools ---

absl::Status Pool::DebugImpl::BeginPool(
    GraphPoolId id, absl::Span<const StreamHandle> streams) {
  {
    // First, so that nothing is waited for once it is open.
    MutexLock lock(&mutex_);
    ++open_graph_pools_;
    changed_.SignalAll();
  }
  absl::Status begun = beneath_->BeginPool(id, streams);
  if (begun.ok()) return begun;
  MutexLock lock(&mutex_);
  --open_graph_pools_;
  return begun;
}

absl::Status Pool::DebugImpl::EndPool(GraphPoolId id) {
  absl::Status ended = beneath_->EndPool(id);
  if (!ended.ok()) return ended;
  MutexLock lock(&mutex_);
  --open_graph_pools_;
  return ended;
}

absl::Status Pool::DebugImpl::ReleasePool(GraphPoolId id) {
  return beneath_->ReleasePool(id);
}

// --- Move hooks ---

// Blocks beneath of which a hook has been told.
struct Pool::DebugImpl::Announced {
  absl::flat_hash_set<void*> starts;
};

std::vector<MovingBlock> Pool::DebugImpl::BeginHook(
    absl::Span<const MovingBlock> blocks) {
  MutexLock lock(&mutex_);
  ++hooks_;
  changed_.SignalAll();
  std::vector<MovingBlock> translated;
  for (MovingBlock moving : blocks) {
    const DebugBlock* const block =
        books_.Find(reinterpret_cast<uintptr_t>(moving.ptr));
    if (block != nullptr) {
      if (block->state != DebugBlock::State::kLive) continue;
      moving.ptr =
          reinterpret_cast<void*>(static_cast<uintptr_t>(block->address));
      moving.bytes = block->bytes;
    }
    translated.push_back(moving);
  }
  return translated;
}

void Pool::DebugImpl::EndHook() {
  MutexLock lock(&mutex_);
  --hooks_;
  changed_.SignalAll();
}

absl::StatusOr<MoveHookRegistration> Pool::DebugImpl::AddMoveHook(
    MoveHook hook) {
  MoveHook wrapped;
  // One hook is called at a time, in turns with passes.
  const auto announced = std::make_shared<Announced>();
  if (hook.before_move) {
    const bool has_after = static_cast<bool>(hook.after_move);
    wrapped.before_move = [this, announced, has_after, call = hook.before_move](
                              absl::Span<const MovingBlock> blocks) {
      const std::vector<MovingBlock> translated = BeginHook(blocks);
      // Of what is in quarantine nobody knows any more.
      const absl::Status status =
          translated.empty() ? absl::OkStatus() : call(translated);
      if (status.ok() && has_after && !translated.empty()) {
        for (const MovingBlock& block : blocks) {
          announced->starts.insert(block.ptr);
        }
      }
      EndHook();
      return status;
    };
  }
  if (hook.after_move) {
    const bool has_before = static_cast<bool>(hook.before_move);
    wrapped.after_move = [this, announced, has_before, call = hook.after_move](
                             absl::Span<const MovingBlock> blocks) {
      const std::vector<MovingBlock> translated = BeginHook(blocks);
      bool is_announced = !has_before && !translated.empty();
      for (const MovingBlock& block : blocks) {
        if (announced->starts.erase(block.ptr) > 0) is_announced = true;
      }
      if (is_announced) call(translated);
      EndHook();
    };
  }
  return beneath_->AddMoveHook(std::move(wrapped));
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/move_hook_list.h"

#include <utility>

namespace firn {

uint64_t MoveHookList::Add(MoveHook hook) {
  MutexLock lock(&mutex_);
  hooks_.emplace(++last_id_, std::make_shared<MoveHook>(std::move(hook)));
  count_.store(hooks_.size());
  return last_id_;
}

void MoveHookList::Remove(uint64_t id) {
  // Destroyed without the lock: what it holds may be anything.
  std::shared_ptr<const MoveHook> removed;
  MutexLock lock(&mutex_);
  const auto found = hooks_.find(id);
  if (found == hooks_.end()) return;
  removed = std::move(found->second);
  hooks_.erase(found);
  count_.store(hooks_.size());
  while (being_called_ == id && !ThisThreadIsInside()) {
    call_has_ended_.Wait(&mutex_);
  }
}

std::shared_ptr<const MoveHook> MoveHookList::Enter(uint64_t id) {
  MutexLock lock(&mutex_);
  const auto found = hooks_.find(id);
  if (found == hooks_.end()) return nullptr;
  being_called_ = id;
  caller_.store(std::this_thread::get_id());
  return found->second;
}

void MoveHookList::Leave() {
  MutexLock lock(&mutex_);
  being_called_ = 0;
  caller_.store(std::thread::id());
  call_has_ended_.SignalAll();
}

absl::Status MoveHookList::Before(absl::Span<const MovingBlock> blocks,
                                  std::vector<uint64_t>* called) {
  std::vector<uint64_t> ids;
  {
    MutexLock lock(&mutex_);
    for (const auto& [id, hook] : hooks_) ids.push_back(id);
  }
  for (const uint64_t id : ids) {
    const std::shared_ptr<const MoveHook> hook = Enter(id);
    if (hook == nullptr) continue;
    absl::Status status;
    if (hook->before_move) status = hook->before_move(blocks);
    Leave();
    if (!status.ok()) return status;
    called->push_back(id);
  }
  return absl::OkStatus();
}

void MoveHookList::After(absl::Span<const MovingBlock> blocks,
                         absl::Span<const uint64_t> called) {
  for (const uint64_t id : called) {
    const std::shared_ptr<const MoveHook> hook = Enter(id);
    if (hook == nullptr) continue;
    if (hook->after_move) hook->after_move(blocks);
    Leave();
  }
}

}  // namespace firn

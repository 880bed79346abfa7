// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The move hooks of a pool. Shared by the pool and the registrations, which may
// be given up after it is gone.

#ifndef FIRN_CORE_MOVE_HOOK_LIST_H_
#define FIRN_CORE_MOVE_HOOK_LIST_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "firn/core/move_hooks.h"
#include "firn/vmm/mutex.h"

namespace firn {

// Thread safety: all methods may be called from any thread, Before and After by
// one at a time. No lock is held while a hook is called.
class MoveHookList {
 public:
  MoveHookList() = default;
  MoveHookList(const MoveHookList&) = delete;
  MoveHookList& operator=(const MoveHookList&) = delete;

  uint64_t Add(MoveHook hook);
  // Waits for a call of the hook that is in progress, unless by this thread.
  void Remove(uint64_t id);
  bool empty() const { return count_.load() == 0; }
  // Whether the calling thread is inside a hook.
  bool ThisThreadIsInside() const {
    return caller_.load() == std::this_thread::get_id();
  }

  // Calls the hooks one after the other until one gives an error. `called` gets
  // those that gave none.
  absl::Status Before(absl::Span<const MovingBlock> blocks,
                      std::vector<uint64_t>* called);
  // Calls those hooks, as far as they are registered still.
  void After(absl::Span<const MovingBlock> blocks,
             absl::Span<const uint64_t> called);

 private:
  // The hook, to be called by this thread; null if it is gone.
  std::shared_ptr<const MoveHook> Enter(uint64_t id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  CondVar call_has_ended_;
  // By id, in the order of registration.
  std::map<uint64_t, std::shared_ptr<const MoveHook>> hooks_
      ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t being_called_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none
  std::atomic<std::thread::id> caller_{std::thread::id()};
  std::atomic<size_t> count_{0};
};

}  // namespace firn

#endif  // FIRN_CORE_MOVE_HOOK_LIST_H_

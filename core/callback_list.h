// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Callbacks of one kind that are registered with a pool. Shared by the pool and
// the registrations, which may be given up after it is gone.

#ifndef FIRN_CORE_CALLBACK_LIST_H_
#define FIRN_CORE_CALLBACK_LIST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "firn/core/callback_registration.h"
#include "firn/vmm/mutex.h"

namespace firn {

// Thread safety: all methods may be called from any thread, Call by one at a
// time. No lock is held while a callback is called.
template <typename Callback>
class CallbackList : public CallbackRegistration::List {
 public:
  CallbackList() = default;
  CallbackList(const CallbackList&) = delete;
  CallbackList& operator=(const CallbackList&) = delete;

  uint64_t Add(Callback callback) {
    MutexLock lock(&mutex_);
    callbacks_.emplace(++last_id_,
                       std::make_shared<Callback>(std::move(callback)));
    count_.store(callbacks_.size());
    return last_id_;
  }
  void Remove(uint64_t id) override {
    // Destroyed without the lock: what it holds may be anything.
    std::shared_ptr<const Callback> removed;
    MutexLock lock(&mutex_);
    const auto found = callbacks_.find(id);
    if (found == callbacks_.end()) return;
    removed = std::move(found->second);
    callbacks_.erase(found);
    count_.store(callbacks_.size());
    while (being_called_ == id && !ThisThreadIsInside()) {
      call_has_ended_.Wait(&mutex_);
    }
  }

  size_t count() const { return count_.load(); }
  bool empty() const { return count() == 0; }
  // Whether the calling thread is inside a callback.
  bool ThisThreadIsInside() const {
    return caller_.load() == std::this_thread::get_id();
  }

  // In the order of registration.
  std::vector<uint64_t> ids() const {
    MutexLock lock(&mutex_);
    std::vector<uint64_t> ids;
    for (const auto& [id, callback] : callbacks_) ids.push_back(id);
    return ids;
  }
  // Has `call` called with the callback; not if that is gone.
  template <typename Call>
  void CallOne(uint64_t id, Call call) {
    const std::shared_ptr<const Callback> callback = Enter(id);
    if (callback == nullptr) return;
    call(*callback);
    Leave();
  }

 private:
  // The callback, to be called by this thread; null if it is gone.
  std::shared_ptr<const Callback> Enter(uint64_t id)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto found = callbacks_.find(id);
    if (found == callbacks_.end()) return nullptr;
    being_called_ = id;
    caller_.store(std::this_thread::get_id());
    return found->second;
  }
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    being_called_ = 0;
    caller_.store(std::thread::id());
    call_has_ended_.SignalAll();
  }

  mutable Mutex mutex_;
  CondVar call_has_ended_;
  std::map<uint64_t, std::shared_ptr<const Callback>> callbacks_
      ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t being_called_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none
  std::atomic<std::thread::id> caller_{std::thread::id()};
  std::atomic<size_t> count_{0};
};

}  // namespace firn

#endif  // FIRN_CORE_CALLBACK_LIST_H_

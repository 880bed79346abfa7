// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What keeps a callback registered with a pool: a move hook (core/move_hooks.h)
// or a reclaim callback (core/reclaim_callback.h).

#ifndef FIRN_CORE_CALLBACK_REGISTRATION_H_
#define FIRN_CORE_CALLBACK_REGISTRATION_H_

#include <cstdint>
#include <memory>
#include <utility>

namespace firn {

// Move-only; may outlive its pool. Thread safety: as of a pointer.
class CallbackRegistration {
 public:
  // Where it is registered.
  class List {
   public:
    virtual ~List() = default;
    // Waits for a call that is in progress, unless by this thread.
    virtual void Remove(uint64_t id) = 0;
  };

  // Of nothing.
  CallbackRegistration() = default;
  CallbackRegistration(std::shared_ptr<List> list, uint64_t id)
      : list_(std::move(list)), id_(id) {}
  CallbackRegistration(CallbackRegistration&& other) noexcept
      : list_(std::move(other.list_)), id_(other.id_) {}
  CallbackRegistration& operator=(CallbackRegistration&& other) noexcept {
    if (this == &other) return *this;
    Release();
    list_ = std::move(other.list_);
    id_ = other.id_;
    return *this;
  }
  ~CallbackRegistration() { Release(); }
  CallbackRegistration(const CallbackRegistration&) = delete;
  CallbackRegistration& operator=(const CallbackRegistration&) = delete;

  // From its return on the callback is not called, not even to conclude what it
  // was told of: waits for a call that is in progress, unless it is that call
  // which releases.
  void Release() {
    if (list_ == nullptr) return;
    list_->Remove(id_);
    list_.reset();
  }

 private:
  std::shared_ptr<List> list_;  // null: of nothing
  uint64_t id_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_CALLBACK_REGISTRATION_H_

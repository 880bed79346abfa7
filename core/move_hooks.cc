// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/move_hooks.h"

#include <utility>

#include "firn/core/move_hook_list.h"

namespace firn {

MoveHookRegistration::MoveHookRegistration(std::shared_ptr<MoveHookList> hooks,
                                           uint64_t id)
    : hooks_(std::move(hooks)), id_(id) {}

MoveHookRegistration::MoveHookRegistration(
    MoveHookRegistration&& other) noexcept
    : hooks_(std::move(other.hooks_)), id_(other.id_) {}

MoveHookRegistration& MoveHookRegistration::operator=(
    MoveHookRegistration&& other) noexcept {
  if (this == &other) return *this;
  Release();
  hooks_ = std::move(other.hooks_);
  id_ = other.id_;
  return *this;
}

void MoveHookRegistration::Release() {
  if (hooks_ == nullptr) return;
  hooks_->Remove(id_);
  hooks_.reset();
}

}  // namespace firn

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pin.h"

#include <utility>

#include "firn/core/pinned_blocks.h"

namespace firn {

Pin::Pin(std::shared_ptr<PinnedBlocks> pins, uint64_t id, void* ptr)
    : pins_(std::move(pins)), id_(id), ptr_(ptr) {}

Pin::Pin(Pin&& other) noexcept
    : pins_(std::move(other.pins_)),
      id_(other.id_),
      ptr_(std::exchange(other.ptr_, nullptr)) {}

Pin& Pin::operator=(Pin&& other) noexcept {
  if (this == &other) return *this;
  Release();
  pins_ = std::move(other.pins_);
  id_ = other.id_;
  ptr_ = std::exchange(other.ptr_, nullptr);
  return *this;
}

void Pin::Release() {
  if (ptr_ == nullptr) return;
  pins_->Remove(id_);
  pins_.reset();
  ptr_ = nullptr;
}

}  // namespace firn

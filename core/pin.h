// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn::Pin: a block whose physical memory stays where it is, for as long as
// somebody relies on it: a capture, a debugger, work that the pool cannot know
// of.
//
//   absl::StatusOr<firn::Pin> pin = pool->PinBlock(block, "debugger");
//   if (!pin.ok()) return pin.status();
//   // ... until `pin` is destroyed, `block` is neither moved nor freed ...

#ifndef FIRN_CORE_PIN_H_
#define FIRN_CORE_PIN_H_

#include <cstdint>
#include <memory>

namespace firn {

class Pool;
class PinnedBlocks;

// While a block has pins, no pass moves it (its generation stays the same), and
// it cannot be freed. Pins are counted: each of several holds the block. What
// else lies within the same granule of addresses stays as well, and the granule
// of memory beneath it cannot be emptied; other blocks may still be moved onto
// it.
//
// Move-only. May be given up on any thread, at any time, also after its pool is
// gone. Thread safety: as of a pointer.
class Pin {
 public:
  // Holds nothing.
  Pin() = default;
  Pin(Pin&& other) noexcept;
  Pin& operator=(Pin&& other) noexcept;
  ~Pin() { Release(); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  // Gives the pin up before its time; it holds nothing afterwards.
  void Release();

  // The block that is held; nullptr if none is.
  void* ptr() const { return ptr_; }

 private:
  friend class Pool;
  Pin(std::shared_ptr<PinnedBlocks> pins, uint64_t id, void* ptr);

  std::shared_ptr<PinnedBlocks> pins_;
  uint64_t id_ = 0;
  void* ptr_ = nullptr;
};

}  // namespace firn

#endif  // FIRN_CORE_PIN_H_

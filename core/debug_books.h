// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool with DebugOptions knows of its blocks: which are live, and which
// were freed but are kept from others still.

#ifndef FIRN_CORE_DEBUG_BOOKS_H_
#define FIRN_CORE_DEBUG_BOOKS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "firn/core/call_site.h"
#include "firn/core/domain.h"
#include "firn/core/tags.h"
#include "firn/vmm/driver_types.h"

namespace firn {

// A block with what is before and behind it:
//
//   start          address        address + bytes
//   | front guard  | the block    | back guard  |   held_bytes in all
struct DebugBlock {
  enum class State : uint8_t {
    kLive,
    kFreed,        // its streams may use it yet
    kQuarantined,  // filled with kFreedPattern: nothing may write it any more
  };
  // A stream that uses it, by its id, and an event behind the last use.
  struct Use {
    uint64_t stream_id = 0;  // 0: the driver has no ids
    EventHandle event = nullptr;
  };

  DevicePtr start = 0;
  uint64_t held_bytes = 0;
  DevicePtr address = 0;
  uint64_t bytes = 0;  // requested
  Tag tag = Tag::kUntagged;
  DomainId domain = DomainId::kDefault;
  State state = State::kLive;
  bool has_guards = false;
  // Whether `uses` tell when it may be looked at, once it is freed.
  bool is_tracked = true;
  std::vector<Use> uses;
  std::vector<uint64_t> pins;  // ids, of pins given up meanwhile too
  CallSite allocated;
  CallSite freed;

  uint64_t front_bytes() const { return address - start; }
  DevicePtr end() const { return address + bytes; }
  uint64_t back_bytes() const { return start + held_bytes - end(); }
};

// Makes no driver call. Thread safety: none; guarded by its owner.
class DebugBooks {
 public:
  DebugBooks() = default;
  DebugBooks(const DebugBooks&) = delete;
  DebugBooks& operator=(const DebugBooks&) = delete;

  // Adds a live block, which overlaps none that is there.
  DebugBlock* Add(DebugBlock block);
  // The block in which `address` lies, its guards included; nullptr: none.
  DebugBlock* Find(DevicePtr address) const;
  // A live block was freed.
  void SetFreed(DebugBlock* block);
  // A freed one is in quarantine from now on.
  void SetQuarantined(DebugBlock* block);
  // It is the pool's again; `block` is gone.
  void Remove(DebugBlock* block);

  // Those of State::kFreed, oldest first.
  std::vector<DebugBlock*> Freed() const;
  // Those of State::kQuarantined, oldest first.
  const std::deque<DebugBlock*>& quarantine() const { return quarantine_; }
  // In the order of their places. `visit` must not change the books.
  void ForEach(absl::FunctionRef<void(DebugBlock* block)> visit) const;

  struct Totals {
    uint64_t live_guard_bytes = 0;
    // Freed or in quarantine: how many, as requested, and with their guards.
    uint64_t freed_blocks = 0;
    uint64_t freed_bytes = 0;
    uint64_t freed_held_bytes = 0;
    uint64_t quarantined_held_bytes = 0;
  };
  const Totals& totals() const { return totals_; }

  // Internal unless the totals are right and no two blocks overlap.
  absl::Status CheckInvariants() const;

 private:
  absl::btree_map<DevicePtr, std::unique_ptr<DebugBlock>> blocks_;  // by start
  std::deque<DebugBlock*> freed_;
  std::deque<DebugBlock*> quarantine_;
  Totals totals_;
};

}  // namespace firn

#endif  // FIRN_CORE_DEBUG_BOOKS_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which live blocks are declared idle, and whether what was launched on them
// before is done.

#ifndef FIRN_CORE_IDLE_BLOCKS_H_
#define FIRN_CORE_IDLE_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {

// Thread safety: none; guarded by its owner.
class IdleBlocks {
 public:
  // Does not own `tracker`, which must outlive it.
  explicit IdleBlocks(StreamTracker* tracker) : tracker_(tracker) {}
  IdleBlocks(const IdleBlocks&) = delete;
  IdleBlocks& operator=(const IdleBlocks&) = delete;

  // The block of this key and of so many requested bytes is idle when all of
  // `work` is done. Takes the place of what was declared before.
  void Add(uint64_t key, uint64_t bytes, std::vector<StreamToken> work);
  // It is in use again, or freed. Nothing happens if it was not declared idle.
  void Remove(uint64_t key);

  bool Contains(uint64_t key) const { return blocks_.contains(key); }
  // Whether it is idle by now, and has been declared so by one of the first so
  // many declarations: else it may have been used since. Polls, and never
  // waits; false where the tracker cannot tell.
  bool IsIdle(uint64_t key, uint64_t declarations);
  bool IsIdle(uint64_t key) { return IsIdle(key, declarations_); }
  // Calls of Add so far.
  uint64_t declarations() const { return declarations_; }

  uint64_t count() const { return blocks_.size(); }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Block {
    uint64_t bytes = 0;
    uint64_t declaration = 0;       // which call of Add
    std::vector<StreamToken> work;  // not known to be done
  };

  StreamTracker* const tracker_;
  absl::flat_hash_map<uint64_t, Block> blocks_;  // by key
  uint64_t bytes_ = 0;
  uint64_t declarations_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_IDLE_BLOCKS_H_

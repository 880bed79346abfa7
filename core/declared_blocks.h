// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which live blocks are declared idle, read-only or spillable, and whether what
// was launched on them before is done.

#ifndef FIRN_CORE_DECLARED_BLOCKS_H_
#define FIRN_CORE_DECLARED_BLOCKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "firn/vmm/stream_tracker.h"

namespace firn {

// What work that comes later does not do to a block. Who keeps to one keeps to
// those before it as well.
enum class Declaration : uint8_t {
  kReadOnly,   // writes it
  kIdle,       // nor reads it
  kSpillable,  // nor minds that it lies in host memory meanwhile
};

// Thread safety: none; guarded by its owner.
class DeclaredBlocks {
 public:
  // Does not own `tracker`, which must outlive it.
  explicit DeclaredBlocks(StreamTracker* tracker) : tracker_(tracker) {}
  DeclaredBlocks(const DeclaredBlocks&) = delete;
  DeclaredBlocks& operator=(const DeclaredBlocks&) = delete;

  // The block of this key and of so many requested bytes is `what` when all of
  // `work` is done. Takes the place of what was declared before.
  void Add(uint64_t key, uint64_t bytes, Declaration what,
           std::vector<StreamToken> work);
  // It is in use again, or freed. Nothing happens if it was not declared.
  void Remove(uint64_t key) {
    if (!empty()) Erase(key);
  }
  // It is used by work that its user has made known: not idle any more, and
  // read-only still.
  void NoteUse(uint64_t key);

  bool Contains(uint64_t key) const {
    return !empty() && blocks_.contains(key);
  }
  // Whether it is `what` by now, and has been declared so by one of the first
  // so many declarations: else it may have been written since. Polls, and never
  // waits; false where the tracker cannot tell.
  bool KeepsTo(Declaration what, uint64_t key, uint64_t declarations);
  bool IsIdle(uint64_t key) {
    return !empty() && KeepsTo(Declaration::kIdle, key, declarations_);
  }
  // Calls `visit` with the key of each block that is declared spillable,
  // whether its work is done or not.
  template <typename Visit>
  void ForEachSpillable(Visit visit) const {
    if (count(Declaration::kSpillable) == 0) return;
    for (const auto& [key, block] : blocks_) {
      if (block.what == Declaration::kSpillable) visit(key);
    }
  }
  // Calls of Add so far.
  uint64_t declarations() const { return declarations_; }

  bool empty() const { return blocks_.empty(); }
  // Of those declared just that.
  uint64_t count(Declaration what) const {
    return totals_[IndexOf(what)].count;
  }
  uint64_t bytes(Declaration what) const {
    return totals_[IndexOf(what)].bytes;
  }

 private:
  struct Block {
    uint64_t bytes = 0;
    uint64_t declaration = 0;  // which call of Add
    Declaration what = Declaration::kReadOnly;
    std::vector<StreamToken> work;  // not known to be done
  };
  struct Total {
    uint64_t count = 0;
    uint64_t bytes = 0;
  };
  void Erase(uint64_t key);
  static size_t IndexOf(Declaration what) { return static_cast<size_t>(what); }

  StreamTracker* const tracker_;
  absl::flat_hash_map<uint64_t, Block> blocks_;  // by key
  std::array<Total, 3> totals_;
  uint64_t declarations_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_DECLARED_BLOCKS_H_

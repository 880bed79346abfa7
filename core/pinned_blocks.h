// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which blocks of a pool are pinned, how often, and for what reasons. Shared by
// the pool and its pins, which may be given up after it is gone.

#ifndef FIRN_CORE_PINNED_BLOCKS_H_
#define FIRN_CORE_PINNED_BLOCKS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/mutex.h"
#include "firn/vmm/units.h"

namespace firn {

// A live block, as far as pins are concerned.
struct PinnedBlock {
  uint64_t key = 0;    // by which the pool tells blocks apart
  uint64_t bytes = 0;  // requested
  // Those of its virtual granules that a pass could move: a window's, the
  // remainder of a large block, or all that a structure has put it on; none if
  // the block fills all of its granules.
  VgRange movable_vgs;
  uint32_t full_granules = 0;  // that it fills alone
};

// Thread safety: all methods may be called from any thread. A block is added
// only while nobody plans a pass.
class PinnedBlocks {
 public:
  PinnedBlocks() = default;
  PinnedBlocks(const PinnedBlocks&) = delete;
  PinnedBlocks& operator=(const PinnedBlocks&) = delete;

  // Adds a pin and returns its id.
  uint64_t Add(const PinnedBlock& block, absl::string_view reason);
  void Remove(uint64_t id);

  bool empty() const { return blocks_now_.load() == 0; }
  // The reasons of a block's pins, each once, for a message; empty if it has
  // none.
  std::string ReasonsOf(uint64_t key) const;
  // Likewise of the block that a pin holds, by the pin's id; empty if that has
  // been given up.
  std::string ReasonsOfPin(uint64_t id) const;
  // How many blocks are pinned for what reason, most first, for a message.
  std::string Describe() const;
  // What may not move: ascending, each once.
  std::vector<VgIndex> PinnedVgs() const;

  struct Totals {
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    uint64_t full_granules = 0;
  };
  Totals totals() const;
  // Pins given up and added so far, to tell whether anything has changed.
  uint64_t removals() const { return removals_.load(); }
  uint64_t additions() const { return last_id_.load(); }

 private:
  struct Entry {
    PinnedBlock block;
    absl::btree_map<uint64_t, std::string> reasons;  // by pin, oldest first
  };

  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, Entry> entries_
      ABSL_GUARDED_BY(mutex_);  // by key
  absl::flat_hash_map<uint64_t, uint64_t> key_of_pin_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> blocks_now_{0};
  std::atomic<uint64_t> last_id_{0};
  std::atomic<uint64_t> removals_{0};
};

}  // namespace firn

#endif  // FIRN_CORE_PINNED_BLOCKS_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which blocks of a replay are idle where a fixed share of them is: those
// allocated longest ago, as the retained prefixes of a KV cache are.

#ifndef FIRN_BENCH_POLICIES_IDLE_SHARE_H_
#define FIRN_BENCH_POLICIES_IDLE_SHARE_H_

#include <cstdint>
#include <list>
#include <optional>

#include "absl/container/flat_hash_map.h"

namespace firn::bench {

// The live blocks in the order of their allocation, the idle ones before a
// boundary. Every call takes constant time. Thread safety: none.
class IdleShare {
 public:
  // A block that is to change sides.
  struct Change {
    uint64_t address = 0;
    bool is_idle = false;  // from now on
  };

  // `share`, from 0 to 1, of the live blocks is idle, rounded down.
  explicit IdleShare(double share) : share_(share) {}

  // A new block, which is active.
  void Add(uint64_t address);
  // A block, idle or not, is freed.
  void Remove(uint64_t address);

  // Moves the boundary past one block if the share wants it: call it after Add
  // and Remove until it returns nothing.
  std::optional<Change> Next();

  uint64_t idle_blocks() const { return idle_blocks_; }

 private:
  struct Block {
    uint64_t address = 0;
    bool is_idle = false;
  };
  using Blocks = std::list<Block>;

  const double share_;
  Blocks blocks_;                                           // oldest first
  absl::flat_hash_map<uint64_t, Blocks::iterator> places_;  // by address
  Blocks::iterator boundary_ = blocks_.end();  // the oldest that is active
  uint64_t idle_blocks_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_IDLE_SHARE_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Binary buddies: blocks are powers of two; two halves of one block, whose
// addresses differ in one bit, join as soon as both are free.

#ifndef FIRN_BENCH_POLICIES_BUDDY_ARENA_H_
#define FIRN_BENCH_POLICIES_BUDDY_ARENA_H_

#include <array>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "bench/policies/lowest_bit_set.h"

namespace firn::bench {

// Works within root blocks, each at a multiple of its own size, that its owner
// gives it; roots never join. Of the smallest free blocks that are large enough
// the lowest is taken. Thread safety: none.
class BuddyArena {
 public:
  // A block of order k has 512 * 2^k bytes.
  static uint64_t BytesOf(uint32_t order);
  // The least order that holds `bytes`, which is neither 0 nor above
  // kLargestRequestBytes.
  static uint32_t OrderFor(uint64_t bytes);
  // The greatest order of no more than `bytes`, which is at least 512.
  static uint32_t LargestOrderWithin(uint64_t bytes);

  struct FreedBlock {
    uint64_t bytes = 0;  // requested; 0: no block starts there
    // The free block that it is part of now.
    uint64_t joined_address = 0;
    uint32_t joined_order = 0;
  };

  // REQUIRES: `address` is a multiple of BytesOf(order); what lies at the
  // root's buddy is no root of the same order.
  void AddRoot(uint64_t address, uint32_t order) {
    InsertFree(order, address / BytesOf(order));
  }
  // REQUIRES: all of the root is free.
  void RemoveRoot(uint64_t address, uint32_t order) {
    EraseFree(order, address / BytesOf(order));
  }

  bool HasFree(uint32_t order) const { return free_orders_ >> order != 0; }
  // The address of a block for `bytes`. REQUIRES: HasFree(OrderFor(bytes)).
  uint64_t Allocate(uint64_t bytes);
  FreedBlock Free(uint64_t address);

 private:
  static constexpr uint32_t kOrders = 48;

  struct Block {
    uint64_t bytes = 0;  // requested
    uint32_t order = 0;
  };

  void InsertFree(uint32_t order, uint64_t index);
  bool EraseFree(uint32_t order, uint64_t index);

  // free_[k] holds address / size of the free blocks of order k, and bit k of
  // free_orders_ says whether there is any.
  std::array<LowestBitSet, kOrders> free_;
  uint64_t free_orders_ = 0;
  absl::flat_hash_map<uint64_t, Block> blocks_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_BUDDY_ARENA_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The free blocks of binary buddies: blocks are powers of two; two halves of
// one block, whose addresses differ in one bit, join as soon as both are free.

#ifndef FIRN_CORE_PLACEMENT_BUDDY_ARENA_H_
#define FIRN_CORE_PLACEMENT_BUDDY_ARENA_H_

#include <array>
#include <cstdint>
#include <optional>

#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/lowest_bit_set.h"

namespace firn {

// Every block starts at a multiple of its size. What is given joins with
// whatever buddies are free; an owner that wants blocks kept apart gives them
// such addresses that none is another's buddy. Thread safety: none.
class BuddyArena {
 public:
  // A block of order k has 512 * 2^k bytes.
  static uint64_t BytesOf(uint32_t order);
  // The least order that holds `bytes`, which is neither 0 nor above
  // kLargestRequestBytes.
  static uint32_t OrderFor(uint64_t bytes);
  // The greatest order of no more than `bytes`, which is at least 512.
  static uint32_t LargestOrderWithin(uint64_t bytes);

  struct Block {
    uint64_t address = 0;
    uint32_t order = 0;
  };

  // Makes a block free; returns the free block that it is part of now.
  // REQUIRES: it starts at a multiple of its size, and nothing of it is free.
  Block Give(Block block);
  // The same with whole quanta that need be no one block: they are divided into
  // the fewest that start at multiples of their sizes.
  void GiveRange(FreeRange range);

  // Whether there is a free block of that order or a greater one.
  bool HasFree(uint32_t order) const { return free_orders_ >> order != 0; }
  // The address of a block, of the lowest of the smallest that are large
  // enough. REQUIRES: HasFree(order).
  uint64_t Take(uint32_t order);
  // Takes the lowest free block of exactly that order, if that starts at a
  // multiple of `alignment_bytes`, a power of two.
  std::optional<uint64_t> TakeExact(uint32_t order, uint64_t alignment_bytes);
  // Takes that very block; false, and nothing has changed, unless all of it is
  // free.
  bool TakeAt(Block block);
  // Takes out what of `range`, whole quanta, is free.
  void RemoveRange(FreeRange range);

 private:
  static constexpr uint32_t kOrders = 48;

  void InsertFree(uint32_t order, uint64_t index);
  bool EraseFree(uint32_t order, uint64_t index);

  // free_[k] holds address / size of the free blocks of order k, and bit k of
  // free_orders_ says whether there is any.
  std::array<LowestBitSet, kOrders> free_;
  uint64_t free_orders_ = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_BUDDY_ARENA_H_

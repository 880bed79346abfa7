// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/buddy_arena.h"

#include <algorithm>
#include <bit>

#include "firn/core/placement/size_rounding.h"
#include "firn/vmm/units.h"

namespace firn {
namespace {

// The smallest block.
constexpr uint64_t kUnitBytes = kQuantumBytes;

}  // namespace

uint64_t BuddyArena::BytesOf(uint32_t order) { return kUnitBytes << order; }

uint32_t BuddyArena::OrderFor(uint64_t bytes) {
  const uint64_t units = DivideUp(bytes, kUnitBytes);
  return static_cast<uint32_t>(std::bit_width(units - 1));
}

uint32_t BuddyArena::LargestOrderWithin(uint64_t bytes) {
  return static_cast<uint32_t>(std::bit_width(bytes / kUnitBytes) - 1);
}

void BuddyArena::InsertFree(uint32_t order, uint64_t index) {
  free_[order].Insert(index);
  free_orders_ |= uint64_t{1} << order;
}

bool BuddyArena::EraseFree(uint32_t order, uint64_t index) {
  if (!free_[order].Erase(index)) return false;
  if (free_[order].empty()) free_orders_ &= ~(uint64_t{1} << order);
  return true;
}

BuddyArena::Block BuddyArena::Give(Block block) {
  uint32_t order = block.order;
  uint64_t index = block.address / BytesOf(order);
  while (order + 1 < kOrders && EraseFree(order, index ^ 1)) {
    index /= 2;
    ++order;
  }
  InsertFree(order, index);
  return {index * BytesOf(order), order};
}

void BuddyArena::GiveRange(FreeRange range) {
  while (range.bytes != 0) {
    uint32_t order = LargestOrderWithin(range.bytes);
    if (range.start != 0) {
      const auto aligned_order =
          static_cast<uint32_t>(std::countr_zero(range.start / kUnitBytes));
      order = std::min(order, aligned_order);
    }
    Give({range.start, order});
    range = {range.start + BytesOf(order), range.bytes - BytesOf(order)};
  }
}

uint64_t BuddyArena::Take(uint32_t order) {
  const uint64_t large_enough = free_orders_ >> order << order;
  auto from_order = static_cast<uint32_t>(std::countr_zero(large_enough));
  uint64_t index = free_[from_order].Lowest();
  EraseFree(from_order, index);
  // Split: keep the lower half, free the upper one.
  while (from_order > order) {
    --from_order;
    index *= 2;
    InsertFree(from_order, index + 1);
  }
  return index * BytesOf(order);
}

std::optional<uint64_t> BuddyArena::TakeExact(uint32_t order,
                                              uint64_t alignment_bytes) {
  if (free_[order].empty()) return std::nullopt;
  const uint64_t index = free_[order].Lowest();
  const uint64_t address = index * BytesOf(order);
  if (address % alignment_bytes != 0) return std::nullopt;
  EraseFree(order, index);
  return address;
}

bool BuddyArena::TakeAt(Block block) {
  uint32_t order = block.order;
  while (order < kOrders && !EraseFree(order, block.address / BytesOf(order))) {
    ++order;
  }
  if (order == kOrders) return false;
  // Split: free the half that the block is not in.
  while (order > block.order) {
    --order;
    InsertFree(order, (block.address / BytesOf(order)) ^ 1);
  }
  return true;
}

void BuddyArena::RemoveRange(FreeRange range) {
  for (uint64_t orders = free_orders_; orders != 0; orders &= orders - 1) {
    const auto order = static_cast<uint32_t>(std::countr_zero(orders));
    const uint64_t bytes = BytesOf(order);
    // From the block that the range starts within, if it is free.
    uint64_t index = free_[order].LowestFrom(range.start / bytes);
    for (; index < DivideUp(range.end(), bytes);
         index = free_[order].LowestFrom(index + 1)) {
      EraseFree(order, index);
      // What sticks out is of smaller orders, and meets no part of the range.
      const FreeRange block{index * bytes, bytes};
      if (block.start < range.start) {
        GiveRange({block.start, range.start - block.start});
      }
      if (block.end() > range.end()) {
        GiveRange({range.end(), block.end() - range.end()});
      }
    }
  }
}

}  // namespace firn

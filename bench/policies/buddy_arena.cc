// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/buddy_arena.h"

#include <bit>

#include "bench/policies/size_rounding.h"

namespace firn::bench {
namespace {

// The smallest block.
constexpr uint64_t kUnitBytes = kBlockAlignmentBytes;

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

uint64_t BuddyArena::Allocate(uint64_t bytes) {
  const uint32_t order = OrderFor(bytes);
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
  const uint64_t address = index * BytesOf(order);
  blocks_.emplace(address, Block{bytes, order});
  return address;
}

BuddyArena::FreedBlock BuddyArena::Free(uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return {};
  const uint64_t bytes = block->second.bytes;
  uint32_t order = block->second.order;
  uint64_t index = address / BytesOf(order);
  blocks_.erase(block);
  // A root finds no free block where its buddy would be.
  while (order + 1 < kOrders && EraseFree(order, index ^ 1)) {
    index /= 2;
    ++order;
  }
  InsertFree(order, index);
  return {bytes, index * BytesOf(order), order};
}

}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/buddy_policy.h"

#include <bit>

#include "bench/policies/policy_errors.h"
#include "bench/policies/size_rounding.h"

namespace firn::bench {
namespace {

// The smallest block.
constexpr uint64_t kUnitBytes = kBlockAlignmentBytes;

uint32_t OrderOf(uint64_t bytes) {
  const uint64_t units = DivideUp(bytes, kUnitBytes);
  return static_cast<uint32_t>(std::bit_width(units - 1));
}

}  // namespace

BuddyPolicy::BuddyPolicy(const PolicyOptions& options)
    : capacity_units_(options.capacity_bytes / kUnitBytes),
      extent_(options.granule_bytes, options.cost) {}

bool BuddyPolicy::OpenTopLevelBlock(uint32_t order) {
  const uint64_t closed_units = capacity_units_ - opened_units_;
  if (closed_units >> order == 0) return false;
  const auto top_order =
      static_cast<uint32_t>(std::bit_width(closed_units) - 1);
  InsertFree(top_order, opened_units_ >> top_order);
  opened_units_ += uint64_t{1} << top_order;
  return true;
}

void BuddyPolicy::InsertFree(uint32_t order, uint64_t index) {
  free_[order].Insert(index);
  free_orders_ |= uint64_t{1} << order;
}

bool BuddyPolicy::EraseFree(uint32_t order, uint64_t index) {
  if (!free_[order].Erase(index)) return false;
  if (free_[order].empty()) free_orders_ &= ~(uint64_t{1} << order);
  return true;
}

absl::StatusOr<uint64_t> BuddyPolicy::Allocate(uint64_t bytes,
                                               uint32_t /*stream*/) {
  if (bytes > kLargestRequestBytes) return NoRoom();
  const uint32_t order = OrderOf(bytes);
  if (free_orders_ >> order == 0 && !OpenTopLevelBlock(order)) return NoRoom();
  const uint64_t large_enough = free_orders_ >> order << order;
  uint32_t from_order = static_cast<uint32_t>(std::countr_zero(large_enough));
  uint64_t index = free_[from_order].Lowest();
  EraseFree(from_order, index);
  // Split: keep the lower half, free the upper one.
  while (from_order > order) {
    --from_order;
    index *= 2;
    InsertFree(from_order, index + 1);
  }
  const uint64_t block_bytes = kUnitBytes << order;
  const uint64_t address = index * block_bytes;
  extent_.GrowTo(address + block_bytes);
  blocks_.emplace(address, Block{bytes, order});
  live_bytes_ += bytes;
  return address;
}

absl::Status BuddyPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return NotABlock(address);
  uint32_t order = block->second.order;
  uint64_t index = address / kUnitBytes >> order;
  live_bytes_ -= block->second.bytes;
  blocks_.erase(block);
  // A top-level block finds no buddy: that would be as large as itself, and
  // what lies above it is smaller.
  while (order + 1 < kOrders && EraseFree(order, index ^ 1)) {
    index /= 2;
    ++order;
  }
  InsertFree(order, index);
  return absl::OkStatus();
}

}  // namespace firn::bench

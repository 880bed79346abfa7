// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Binary buddies: blocks are powers of two; two halves of one block, whose
// addresses differ in one bit, join as soon as both are free.

#ifndef FIRN_BENCH_POLICIES_BUDDY_POLICY_H_
#define FIRN_BENCH_POLICIES_BUDDY_POLICY_H_

#include <array>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/arena_extent.h"
#include "bench/policies/lowest_bit_set.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"

namespace firn::bench {

// A capacity that is no power of two is managed as top-level blocks: its
// binary digits from the largest down, each at a multiple of its own size. Of
// the smallest free blocks that are large enough the lowest is taken; the next
// top-level block is opened when there is none.
class BuddyPolicy : public Policy {
 public:
  explicit BuddyPolicy(const PolicyOptions& options);

  absl::string_view name() const override { return "buddy"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override { return extent_.usage(); }
  PolicyReport Report() override { return extent_.Report(live_bytes_); }

 private:
  static constexpr uint32_t kOrders = 48;

  struct Block {
    uint64_t bytes = 0;  // requested
    uint32_t order = 0;
  };

  // Makes the next top-level block free, if it has at least `order`.
  bool OpenTopLevelBlock(uint32_t order);
  void InsertFree(uint32_t order, uint64_t index);
  bool EraseFree(uint32_t order, uint64_t index);

  const uint64_t capacity_units_;
  uint64_t opened_units_ = 0;
  ArenaExtent extent_;
  // A block of order k is 2^k units; free_[k] holds address / size of the free
  // ones, and bit k of free_orders_ says whether there is any.
  std::array<LowestBitSet, kOrders> free_;
  uint64_t free_orders_ = 0;
  absl::flat_hash_map<uint64_t, Block> blocks_;
  uint64_t live_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_BUDDY_POLICY_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pages of one block size, as the block allocators of inference servers and
// slab allocators have them: a page is one granule, the lowest page with room
// is filled first, an empty page is given back at once, nothing ever moves.

#ifndef FIRN_BENCH_POLICIES_PAGED_POLICY_H_
#define FIRN_BENCH_POLICIES_PAGED_POLICY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/driver_ledger.h"
#include "bench/policies/lowest_bit_set.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"
#include "bench/policies/size_classes.h"

namespace firn::bench {

// Blocks of more than half a page get whole pages of their own; any pages do,
// as addresses are made by mapping.
class PagedPolicy : public Policy {
 public:
  explicit PagedPolicy(const PolicyOptions& options);

  absl::string_view name() const override { return "paged"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override;
  PolicyReport Report() override;

 private:
  struct Page {
    SizeClass size_class;
    LowestBitSet free_slots;
    // Requested bytes by slot, 0 where no block is live.
    std::vector<uint64_t> slot_bytes;
    uint64_t live_slots = 0;
  };

  absl::StatusOr<uint64_t> AllocateWhole(uint64_t bytes);
  absl::Status FreeWhole(uint64_t address);
  // A page of `size_class` with all slots free. REQUIRES: the capacity allows
  // it.
  uint64_t OpenPage(SizeClass size_class);

  const uint64_t granule_bytes_;
  const uint64_t capacity_granules_;
  DriverLedger ledger_;
  // By page number. The numbers of closed pages are used again, lowest first.
  std::vector<Page> pages_;
  LowestBitSet closed_pages_;
  // By size class: the pages with a free slot.
  std::vector<LowestBitSet> open_pages_;
  // Requested bytes of blocks with pages of their own, by number.
  std::vector<uint64_t> whole_blocks_;
  LowestBitSet unused_whole_blocks_;
  uint64_t live_bytes_ = 0;
  uint64_t held_granules_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_PAGED_POLICY_H_

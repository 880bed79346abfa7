// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/paged_policy.h"

#include "bench/policies/policy_errors.h"
#include "firn/core/placement/size_rounding.h"
#include "firn/core/placement/slab_classes.h"

namespace firn::bench {

PagedPolicy::PagedPolicy(const PolicyOptions& options)
    : pages_(options, CompactionMode::kOff),
      own_pages_(options.granule_bytes) {}

absl::StatusOr<uint64_t> PagedPolicy::Allocate(uint64_t bytes,
                                               uint32_t /*stream*/) {
  if (pages_.NeedsOwnPages(bytes)) {
    if (DivideUp(bytes, pages_.page_bytes()) > pages_.free_pages()) {
      return NoRoom();
    }
    pages_.TakeOwnPages(bytes);
    live_bytes_ += bytes;
    return own_pages_.Add(bytes);
  }
  const SlabClass size_class = SlabClassOf(bytes);
  if (!pages_.HasFreeSlot(size_class) && pages_.free_pages() == 0) {
    return NoRoom();
  }
  live_bytes_ += bytes;
  return pages_.Place(size_class, bytes);
}

absl::Status PagedPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  const bool has_own_pages = DirectBlocks::MayHold(address);
  const uint64_t bytes =
      has_own_pages ? own_pages_.Remove(address) : pages_.Free(address);
  if (bytes == 0) return NotABlock(address);
  if (has_own_pages) pages_.GiveOwnPages(bytes);
  live_bytes_ -= bytes;
  return absl::OkStatus();
}

}  // namespace firn::bench

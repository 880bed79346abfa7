// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/caching_policy.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "bench/policies/policy_errors.h"
#include "firn/core/placement/size_rounding.h"

namespace firn::bench {

CachingPolicy::CachingPolicy(const PolicyOptions& options,
                             const CachingOptions& caching)
    : granule_bytes_(options.granule_bytes),
      // Bounded so that addresses suffice.
      capacity_granules_(
          std::min(options.capacity_bytes, kLargestRequestBytes) /
          options.granule_bytes),
      threshold_granules_(
          static_cast<uint64_t>(caching.garbage_collection_threshold *
                                static_cast<double>(capacity_granules_))),
      ledger_(options.cost),
      heap_(0, options.granule_bytes, caching, &ledger_) {}

bool CachingPolicy::HasRoom(uint64_t granules) const {
  return granules <= capacity_granules_ - heap_.held_granules();
}

absl::StatusOr<uint64_t> CachingPolicy::Allocate(uint64_t bytes,
                                                 uint32_t stream) {
  if (bytes > kLargestRequestBytes) return NoRoom();
  if (const std::optional<uint64_t> cached = heap_.Reuse(bytes, stream)) {
    return *cached;
  }
  if (threshold_granules_ != 0) heap_.CollectGarbage(threshold_granules_);
  const uint64_t granules = heap_.SegmentGranules(bytes);
  if (!HasRoom(granules) &&
      !(heap_.ReleaseAvailable(bytes, stream) && HasRoom(granules))) {
    heap_.ReleaseCached(std::numeric_limits<uint64_t>::max());
    if (!HasRoom(granules)) return NoRoom();
  }
  return heap_.Open(bytes, stream);
}

absl::Status CachingPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  return heap_.Free(address) ? absl::OkStatus() : NotABlock(address);
}

PolicyUsage CachingPolicy::usage() const {
  return {heap_.used_granules() * granule_bytes_,
          heap_.held_granules() * granule_bytes_, heap_.held_granules()};
}

PolicyReport CachingPolicy::Report() {
  return ledger_.Report(heap_.live_bytes(), granule_bytes_);
}

}  // namespace firn::bench

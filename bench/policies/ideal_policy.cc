// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/ideal_policy.h"

#include "bench/policies/policy_errors.h"
#include "firn/core/placement/size_rounding.h"

namespace firn::bench {

absl::StatusOr<uint64_t> IdealPolicy::Allocate(uint64_t bytes,
                                               uint32_t /*stream*/) {
  if (bytes > capacity_bytes_ - live_bytes_) return NoRoom();
  live_bytes_ += bytes;
  uint64_t address = block_bytes_.size();
  if (unused_.empty()) {
    block_bytes_.push_back(bytes);
  } else {
    address = unused_.back();
    unused_.pop_back();
    block_bytes_[address] = bytes;
  }
  return address;
}

absl::Status IdealPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  if (address >= block_bytes_.size() || block_bytes_[address] == 0) {
    return NotABlock(address);
  }
  live_bytes_ -= block_bytes_[address];
  block_bytes_[address] = 0;
  unused_.push_back(address);
  return absl::OkStatus();
}

PolicyUsage IdealPolicy::usage() const {
  const uint64_t granules = DivideUp(live_bytes_, granule_bytes_);
  return {granules * granule_bytes_, granules * granule_bytes_, granules};
}

PolicyReport IdealPolicy::Report() {
  PolicyReport report;
  report.lower_bound_bytes =
      DivideUp(live_bytes_, granule_bytes_) * granule_bytes_;
  return report;
}

}  // namespace firn::bench

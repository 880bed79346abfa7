// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's native caching allocator (CUDACachingAllocator, without expandable
// segments): requests are rounded to 512 bytes; up to 1 MiB they share segments
// of 2 MiB, under 10 MiB segments of 20 MiB, from there on they get segments of
// their own in units of 2 MiB. Best fit among the free blocks of the stream; a
// block is split if that leaves 512 bytes (small) or more than 1 MiB (large).
// Segments are kept for reuse until the device is full; then oversize ones that
// are large enough are released, then all free ones, then the request fails.
//
// A segment comes from one cudaMalloc and can only go back as a whole, so it is
// the page of this policy: used = the segments with at least one live byte,
// held = all segments.

#ifndef FIRN_BENCH_POLICIES_CACHING_POLICY_H_
#define FIRN_BENCH_POLICIES_CACHING_POLICY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/policies/caching_heap.h"
#include "bench/policies/caching_rules.h"
#include "bench/policies/driver_ledger.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"

namespace firn::bench {

// A freed block serves the stream it was allocated for, whichever stream frees
// it, as in the original.
class CachingPolicy : public Policy {
 public:
  explicit CachingPolicy(const PolicyOptions& options,
                         const CachingOptions& caching = {});

  absl::string_view name() const override { return "caching"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  PolicyUsage usage() const override;
  PolicyReport Report() override;

 private:
  bool HasRoom(uint64_t granules) const;

  const uint64_t granule_bytes_;
  const uint64_t capacity_granules_;
  // Of garbage collection; 0: off.
  const uint64_t threshold_granules_;
  DriverLedger ledger_;
  CachingHeap heap_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_CACHING_POLICY_H_

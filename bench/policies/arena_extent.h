// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The physical memory of an arena that only grows: granules are created as the
// highest address used rises, and never given back.

#ifndef FIRN_BENCH_POLICIES_ARENA_EXTENT_H_
#define FIRN_BENCH_POLICIES_ARENA_EXTENT_H_

#include <cstdint>

#include "bench/policies/driver_ledger.h"
#include "bench/policies/policy.h"
#include "firn/vmm/cost_model.h"

namespace firn::bench {

// Thread safety: none.
class ArenaExtent {
 public:
  ArenaExtent(uint64_t granule_bytes, CostProfile cost)
      : granule_bytes_(granule_bytes), ledger_(cost) {}

  // Makes the arena reach `end` at least.
  void GrowTo(uint64_t end);

  // used = held = the extent.
  PolicyUsage usage() const;
  // The figures that do not depend on how the arena is divided.
  PolicyReport Report(uint64_t live_bytes) const;

 private:
  const uint64_t granule_bytes_;
  DriverLedger ledger_;
  uint64_t granules_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_ARENA_EXTENT_H_

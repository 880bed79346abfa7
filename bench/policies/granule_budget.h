// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Physical memory that several tiers share: how much of the capacity is held,
// and what its driver calls cost.

#ifndef FIRN_BENCH_POLICIES_GRANULE_BUDGET_H_
#define FIRN_BENCH_POLICIES_GRANULE_BUDGET_H_

#include <cstdint>

#include "bench/policies/driver_ledger.h"
#include "bench/policies/policy.h"
#include "firn/vmm/cost_model.h"

namespace firn::bench {

// Thread safety: none.
class GranuleBudget {
 public:
  GranuleBudget(uint64_t capacity_bytes, uint64_t granule_bytes,
                CostProfile cost)
      : granule_bytes_(granule_bytes),
        capacity_granules_(capacity_bytes / granule_bytes),
        ledger_(cost) {}

  uint64_t granule_bytes() const { return granule_bytes_; }
  uint64_t held_granules() const { return held_granules_; }
  uint64_t free_granules() const { return capacity_granules_ - held_granules_; }

  // Creates and maps a run. REQUIRES: so many granules are free.
  void Take(uint64_t granules) {
    held_granules_ += granules;
    ledger_.ChargeNewRun(granules);
  }
  // Unmaps and releases a run.
  void Give(uint64_t granules) {
    held_granules_ -= granules;
    ledger_.ChargeRelease(granules);
  }

  PolicyReport Report(uint64_t live_bytes) const {
    return ledger_.Report(live_bytes, granule_bytes_);
  }

 private:
  const uint64_t granule_bytes_;
  const uint64_t capacity_granules_;
  DriverLedger ledger_;
  uint64_t held_granules_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_GRANULE_BUDGET_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The driver calls that a policy of pure bookkeeping would make, counted and
// charged to the same cost model as those of firn.

#ifndef FIRN_BENCH_POLICIES_DRIVER_LEDGER_H_
#define FIRN_BENCH_POLICIES_DRIVER_LEDGER_H_

#include <cstdint>

#include "bench/policies/policy.h"
#include "firn/vmm/cost_model.h"

namespace firn::bench {

// Thread safety: none.
class DriverLedger {
 public:
  explicit DriverLedger(CostProfile profile) : model_(profile) {}

  // A run of `granules` adjacent granules gets new physical memory: one create
  // and one map each, one set-access over the run.
  void ChargeNewRun(uint64_t granules);
  // `granules` granules are unmapped and given back, one by one.
  void ChargeRelease(uint64_t granules);
  // A run of `granules` adjacent granules of address space is mapped to memory
  // that is there already: one map each, one set-access over the run.
  void ChargeMapRun(uint64_t granules);
  // `granules` granules are unmapped, one by one; the memory stays.
  void ChargeUnmap(uint64_t granules);

  // The report of a policy that cannot move: what was charged, and live bytes
  // in whole granules as the least that would hold them.
  PolicyReport Report(uint64_t live_bytes, uint64_t granule_bytes) const;

 private:
  CostModel model_;
  DriverCallCounts calls_;
  double driver_us_ = 0;
  double create_us_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_DRIVER_LEDGER_H_

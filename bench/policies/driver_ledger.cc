// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/driver_ledger.h"

#include "firn/core/placement/size_rounding.h"

namespace firn::bench {

void DriverLedger::ChargeNewRun(uint64_t granules) {
  if (granules == 0) return;
  for (uint64_t i = 0; i < granules; ++i) {
    const double create_us = model_.Create();
    create_us_ += create_us;
    driver_us_ += create_us + model_.Map();
  }
  driver_us_ += model_.SetAccess(granules);
  calls_.create += granules;
  calls_.map += granules;
  ++calls_.set_access;
}

void DriverLedger::ChargeRelease(uint64_t granules) {
  for (uint64_t i = 0; i < granules; ++i) {
    driver_us_ += model_.Unmap(1) + model_.Release();
  }
  calls_.unmap += granules;
  calls_.release += granules;
}

void DriverLedger::ChargeMapRun(uint64_t granules) {
  if (granules == 0) return;
  for (uint64_t i = 0; i < granules; ++i) driver_us_ += model_.Map();
  driver_us_ += model_.SetAccess(granules);
  calls_.map += granules;
  ++calls_.set_access;
}

void DriverLedger::ChargeUnmap(uint64_t granules) {
  for (uint64_t i = 0; i < granules; ++i) driver_us_ += model_.Unmap(1);
  calls_.unmap += granules;
}

PolicyReport DriverLedger::Report(uint64_t live_bytes,
                                  uint64_t granule_bytes) const {
  PolicyReport report;
  report.driver_calls = calls_;
  report.driver_us_modelled = driver_us_;
  report.driver_us_create = create_us_;
  report.lower_bound_bytes =
      DivideUp(live_bytes, granule_bytes) * granule_bytes;
  return report;
}

}  // namespace firn::bench

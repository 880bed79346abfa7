// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/arena_extent.h"

#include "firn/core/placement/size_rounding.h"

namespace firn::bench {

void ArenaExtent::GrowTo(uint64_t end) {
  if (end <= granules_ * granule_bytes_) return;
  const uint64_t granules = DivideUp(end, granule_bytes_);
  ledger_.ChargeNewRun(granules - granules_);
  granules_ = granules;
}

PolicyUsage ArenaExtent::usage() const {
  return {granules_ * granule_bytes_, granules_ * granule_bytes_, granules_};
}

PolicyReport ArenaExtent::Report(uint64_t live_bytes) const {
  return ledger_.Report(live_bytes, granule_bytes_);
}

}  // namespace firn::bench

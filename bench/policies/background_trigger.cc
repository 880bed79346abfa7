// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/background_trigger.h"

#include <algorithm>

namespace firn::bench {

bool BackgroundTrigger::Tick() {
  if (++events_ < interval_events_) return false;
  events_ = 0;
  return true;
}

bool BackgroundTrigger::IsWasteful(uint64_t used_bytes,
                                   uint64_t live_bytes) const {
  const uint64_t tolerated_bytes =
      std::max(live_bytes / 100 * kToleratedWastePercent,
               kToleratedWasteGranules * granule_bytes_);
  return used_bytes > live_bytes && used_bytes - live_bytes > tolerated_bytes;
}

void BackgroundTrigger::PassDone(uint64_t recovered_granules) {
  interval_events_ = recovered_granules > 0 ? kShortestIntervalEvents
                                            : std::min(interval_events_ * 2,
                                                       kLongestIntervalEvents);
}

}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/background_trigger.h"

#include <algorithm>
#include <cmath>

namespace firn::bench {

bool BackgroundTrigger::Count(uint32_t events) {
  events_ += events;
  if (events_ < interval_events_) return false;
  events_ = 0;
  return true;
}

bool BackgroundTrigger::Tick() { return Count(1); }

bool BackgroundTrigger::TickIdle() { return Count(kShortestIntervalEvents); }

double BackgroundTrigger::ToleratedBytes(uint64_t live_bytes) const {
  return std::max(
      static_cast<double>(live_bytes) / 100 * tolerated_waste_percent_,
      static_cast<double>(kToleratedWasteGranules * granule_bytes_));
}

bool BackgroundTrigger::IsWasteful(uint64_t used_bytes,
                                   uint64_t live_bytes) const {
  return used_bytes > live_bytes &&
         static_cast<double>(used_bytes - live_bytes) >
             ToleratedBytes(live_bytes);
}

uint64_t BackgroundTrigger::WantedGranules(uint64_t used_bytes,
                                           uint64_t live_bytes) const {
  if (!IsWasteful(used_bytes, live_bytes)) return 0;
  const double excess_bytes =
      static_cast<double>(used_bytes - live_bytes) - ToleratedBytes(live_bytes);
  return static_cast<uint64_t>(
      std::ceil(excess_bytes / static_cast<double>(granule_bytes_)));
}

void BackgroundTrigger::PassDone(uint64_t recovered_granules) {
  interval_events_ = recovered_granules > 0 ? kShortestIntervalEvents
                                            : std::min(interval_events_ * 2,
                                                       kLongestIntervalEvents);
}

}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a replay in the background mode compacts: fixed settings, counted in
// events, so that the same trace gives the same passes.

#ifndef FIRN_BENCH_POLICIES_BACKGROUND_TRIGGER_H_
#define FIRN_BENCH_POLICIES_BACKGROUND_TRIGGER_H_

#include <cstdint>

namespace firn::bench {

// Thread safety: none.
class BackgroundTrigger {
 public:
  // Events between checks: at first and after a pass that recovered something;
  // at most, reached by doubling after passes that recovered nothing.
  static constexpr uint32_t kShortestIntervalEvents = 64;
  static constexpr uint32_t kLongestIntervalEvents = 2048;
  // Waste that is left alone: 3 % of the live bytes, and two granules.
  static constexpr uint64_t kToleratedWastePercent = 3;
  static constexpr uint64_t kToleratedWasteGranules = 2;

  explicit BackgroundTrigger(uint64_t granule_bytes)
      : granule_bytes_(granule_bytes) {}

  // Counts one event; whether a check is due.
  bool Tick();
  // Whether so much is wasted that a pass is worth it.
  bool IsWasteful(uint64_t used_bytes, uint64_t live_bytes) const;
  // Learns from a pass.
  void PassDone(uint64_t recovered_granules);

 private:
  const uint64_t granule_bytes_;
  uint32_t interval_events_ = kShortestIntervalEvents;
  uint32_t events_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_BACKGROUND_TRIGGER_H_

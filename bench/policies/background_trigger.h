// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a replay in the background mode compacts, and how far: fixed settings,
// counted in events and in the trace's time, so that the same trace gives the
// same passes.

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
  // While no event comes, so much time counts as the shortest interval.
  static constexpr int64_t kIdleIntervalUs = 100'000;
  // Waste that is left alone: this share of the live bytes unless another one
  // is given, and two granules.
  static constexpr double kToleratedWastePercent = 3;
  static constexpr uint64_t kToleratedWasteGranules = 2;

  explicit BackgroundTrigger(
      uint64_t granule_bytes,
      double tolerated_waste_percent = kToleratedWastePercent)
      : granule_bytes_(granule_bytes),
        tolerated_waste_percent_(tolerated_waste_percent) {}

  // Counts one event; whether a check is due.
  bool Tick();
  // Counts kIdleIntervalUs without an event; whether a check is due.
  bool TickIdle();
  // Whether so much is wasted that a pass is worth it.
  bool IsWasteful(uint64_t used_bytes, uint64_t live_bytes) const;
  // How many granules such a pass is to recover, so that the waste is one to be
  // left alone: what it spares is copied later, when more of it has been freed,
  // or never. At least one; 0 where it is left alone already.
  uint64_t WantedGranules(uint64_t used_bytes, uint64_t live_bytes) const;
  // Learns from a pass.
  void PassDone(uint64_t recovered_granules);

 private:
  bool Count(uint32_t events);
  double ToleratedBytes(uint64_t live_bytes) const;

  const uint64_t granule_bytes_;
  const double tolerated_waste_percent_;
  uint32_t interval_events_ = kShortestIntervalEvents;
  uint32_t events_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_BACKGROUND_TRIGGER_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How well memory was used over a replay: means over time, percentiles over
// time, the trough, the peaks. Every rule is written here and nowhere else.

#ifndef FIRN_BENCH_REPLAY_USAGE_FIGURES_H_
#define FIRN_BENCH_REPLAY_USAGE_FIGURES_H_

#include <cstdint>
#include <optional>

#include "bench/replay/weighted_histogram.h"

namespace firn::bench {

// What is in memory between two events.
struct MemoryState {
  uint64_t live_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t held_bytes = 0;
  uint64_t mapped_vgs = 0;
};

struct UsageFigures {
  uint64_t peak_live_bytes = 0;
  uint64_t peak_used_bytes = 0;
  uint64_t peak_held_bytes = 0;
  uint64_t mapped_vgs_peak = 0;
  uint64_t end_held_bytes = 0;
  // Integral of live over integral of used (or held) over time.
  double mean_utilization = 0;
  double held_utilization = 0;
  // Exceeded for 1 % of the time that counts.
  double used_over_live_p99 = 0;
  // Where live bytes are least, once they reached 75 % of the peak. 0 when no
  // state counts.
  double trough_used_over_live = 0;
  double trough_held_over_live = 0;
  std::optional<double> worst_probe_used_over_live;
  // Integral of mapped virtual granules over that of held granules.
  double vgs_per_granule_mean = 0;
};

// Thread safety: none.
class UsageRecorder {
 public:
  // States with fewer live bytes than this share of the peak count neither for
  // percentiles nor for the trough.
  static constexpr double kLeastLiveShare = 0.005;
  // The trough is looked for once live bytes reached this share of the peak.
  static constexpr double kTroughAfterShare = 0.75;

  // `peak_live_bytes` is the trace's. A trace whose events all have one time
  // is measured with `every_event_counts_as_us`: each state then lasts 1 us.
  UsageRecorder(uint64_t peak_live_bytes, uint64_t granule_bytes,
                bool every_event_counts_as_us);

  // The state from `time_us` on, until the next call. Times never fall.
  void Record(int64_t time_us, const MemoryState& state);
  // The last recorded state is one to be probed.
  void Probe();

  // The last state ends with the last event.
  UsageFigures Finish() const;

 private:
  void AddDuration(double duration_us);
  void LookForTrough();
  // Whether the state has enough live bytes for ratios to mean something.
  bool Counts() const;

  const double least_live_bytes_;
  const double trough_after_bytes_;
  const uint64_t granule_bytes_;
  const bool every_event_counts_as_us_;

  MemoryState state_;
  int64_t time_us_ = 0;
  bool started_ = false;
  bool trough_may_come_ = false;
  std::optional<uint64_t> trough_live_bytes_;

  double live_byte_us_ = 0;
  double used_byte_us_ = 0;
  double held_byte_us_ = 0;
  double mapped_vg_us_ = 0;
  WeightedHistogram used_over_live_;
  UsageFigures figures_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_USAGE_FIGURES_H_

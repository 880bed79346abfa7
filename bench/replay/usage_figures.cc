// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/usage_figures.h"

#include <algorithm>

namespace firn::bench {
namespace {

double Ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 0;
}

double Ratio(uint64_t numerator, uint64_t denominator) {
  return Ratio(static_cast<double>(numerator),
               static_cast<double>(denominator));
}

}  // namespace

UsageRecorder::UsageRecorder(uint64_t peak_live_bytes, uint64_t granule_bytes,
                             bool every_event_counts_as_us)
    : least_live_bytes_(kLeastLiveShare * static_cast<double>(peak_live_bytes)),
      trough_after_bytes_(kTroughAfterShare *
                          static_cast<double>(peak_live_bytes)),
      granule_bytes_(granule_bytes),
      every_event_counts_as_us_(every_event_counts_as_us) {}

void UsageRecorder::Record(int64_t time_us, const MemoryState& state) {
  if (every_event_counts_as_us_) {
    state_ = state;
    AddDuration(1);
  } else {
    if (started_ && time_us > time_us_) {
      AddDuration(static_cast<double>(time_us - time_us_));
    }
    state_ = state;
  }
  started_ = true;
  time_us_ = time_us;

  figures_.peak_live_bytes =
      std::max(figures_.peak_live_bytes, state.live_bytes);
  figures_.peak_used_bytes =
      std::max(figures_.peak_used_bytes, state.used_bytes);
  figures_.peak_held_bytes =
      std::max(figures_.peak_held_bytes, state.held_bytes);
  figures_.mapped_vgs_peak =
      std::max(figures_.mapped_vgs_peak, state.mapped_vgs);
  LookForTrough();
}

void UsageRecorder::AddDuration(double duration_us) {
  live_byte_us_ += duration_us * static_cast<double>(state_.live_bytes);
  used_byte_us_ += duration_us * static_cast<double>(state_.used_bytes);
  held_byte_us_ += duration_us * static_cast<double>(state_.held_bytes);
  mapped_vg_us_ += duration_us * static_cast<double>(state_.mapped_vgs);
  if (Counts()) {
    used_over_live_.Add(Ratio(state_.used_bytes, state_.live_bytes),
                        duration_us);
  }
}

bool UsageRecorder::Counts() const {
  return state_.live_bytes > 0 &&
         static_cast<double>(state_.live_bytes) >= least_live_bytes_;
}

void UsageRecorder::LookForTrough() {
  if (static_cast<double>(state_.live_bytes) >= trough_after_bytes_) {
    trough_may_come_ = true;
  }
  if (!trough_may_come_ || !Counts()) return;
  const bool is_lower =
      !trough_live_bytes_ || state_.live_bytes < *trough_live_bytes_;
  const bool is_equal = !is_lower && state_.live_bytes == *trough_live_bytes_;
  if (!is_lower && !is_equal) return;
  const double used = Ratio(state_.used_bytes, state_.live_bytes);
  const double held = Ratio(state_.held_bytes, state_.live_bytes);
  trough_live_bytes_ = state_.live_bytes;
  // Of equally low states the worst counts.
  figures_.trough_used_over_live =
      is_equal ? std::max(figures_.trough_used_over_live, used) : used;
  figures_.trough_held_over_live =
      is_equal ? std::max(figures_.trough_held_over_live, held) : held;
}

void UsageRecorder::Probe() {
  if (state_.live_bytes == 0) return;
  const double ratio = Ratio(state_.used_bytes, state_.live_bytes);
  figures_.worst_probe_used_over_live =
      std::max(figures_.worst_probe_used_over_live.value_or(0), ratio);
}

UsageFigures UsageRecorder::Finish() const {
  UsageFigures figures = figures_;
  figures.end_held_bytes = state_.held_bytes;
  figures.mean_utilization = Ratio(live_byte_us_, used_byte_us_);
  figures.held_utilization = Ratio(live_byte_us_, held_byte_us_);
  figures.used_over_live_p99 = used_over_live_.Quantile(0.99);
  figures.vgs_per_granule_mean =
      Ratio(mapped_vg_us_ * static_cast<double>(granule_bytes_), held_byte_us_);
  return figures;
}

}  // namespace firn::bench

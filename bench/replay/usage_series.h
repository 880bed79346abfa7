// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How well memory was used in the course of a replay, for a plot.

#ifndef FIRN_BENCH_REPLAY_USAGE_SERIES_H_
#define FIRN_BENCH_REPLAY_USAGE_SERIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/replay/usage_figures.h"

namespace firn::bench {

// Means over equal intervals of a trace's time. Thread safety: none.
class UsageSeries {
 public:
  static constexpr int kIntervals = 288;  // a quarter of an hour of three days

  // From the first event of the trace to the last.
  UsageSeries(int64_t first_time_us, int64_t last_time_us);

  // The state from `time_us` on, until the next call. Times never fall.
  void Record(int64_t time_us, const MemoryState& state);

  // One line an interval that lasts: hours from the first event to its middle,
  // and the mean live, used and held bytes; under a line of their names.
  std::string ToCsv() const;

 private:
  struct Interval {
    double duration_us = 0;
    double live_byte_us = 0;
    double used_byte_us = 0;
    double held_byte_us = 0;
  };
  int64_t StartOf(int interval) const;

  const int64_t first_time_us_;
  const int64_t duration_us_;
  std::vector<Interval> intervals_;
  int current_ = 0;
  int64_t time_us_;
  MemoryState state_;
};

// NotFound, naming the file, if it cannot be written.
absl::Status WriteUsageSeries(const UsageSeries& series,
                              const std::string& path);

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_USAGE_SERIES_H_

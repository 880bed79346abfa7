// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long calls take on the host: a sample of them is timed, the clock's own
// cost is taken off.

#ifndef FIRN_BENCH_REPLAY_LATENCY_SAMPLER_H_
#define FIRN_BENCH_REPLAY_LATENCY_SAMPLER_H_

#include <chrono>
#include <cstdint>

#include "bench/replay/weighted_histogram.h"

namespace firn::bench {

// What reading the clock twice in a row seems to take, in nanoseconds.
double MeasureClockCostNs();

// One call in eight, at gaps that follow no period of the trace. Constant
// memory. Thread safety: none.
class LatencySampler {
 public:
  explicit LatencySampler(double clock_cost_ns)
      : clock_cost_ns_(clock_cost_ns) {}

  // Runs `call` and returns what it returns.
  template <typename Call>
  auto Time(Call&& call) {
    if (--calls_to_next_ > 0) return call();
    calls_to_next_ = NextGap();
    const Clock::time_point start = Clock::now();
    auto result = call();
    AddSample(Clock::now() - start);
    return result;
  }

  // In nanoseconds; 0 before the first sample.
  double Quantile(double quantile) const {
    return histogram_.Quantile(quantile);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void AddSample(Clock::duration elapsed);
  uint32_t NextGap();

  const double clock_cost_ns_;
  WeightedHistogram histogram_;
  uint32_t calls_to_next_ = 1;
  uint32_t random_ = 0x9e3779b9;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_LATENCY_SAMPLER_H_

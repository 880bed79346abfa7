// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/latency_sampler.h"

#include <algorithm>
#include <array>

namespace firn::bench {
namespace {

double ToNs(std::chrono::steady_clock::duration elapsed) {
  return std::chrono::duration<double, std::nano>(elapsed).count();
}

}  // namespace

double MeasureClockCostNs() {
  std::array<double, 1001> readings;
  for (double& reading : readings) {
    const auto start = std::chrono::steady_clock::now();
    reading = ToNs(std::chrono::steady_clock::now() - start);
  }
  const auto middle = readings.begin() + readings.size() / 2;
  std::nth_element(readings.begin(), middle, readings.end());
  return *middle;
}

void LatencySampler::AddSample(Clock::duration elapsed) {
  histogram_.Add(std::max(0.0, ToNs(elapsed) - clock_cost_ns_), 1);
}

// xorshift32; gaps of 1 to 15 calls.
uint32_t LatencySampler::NextGap() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  return 1 + random_ % 15;
}

}  // namespace firn::bench

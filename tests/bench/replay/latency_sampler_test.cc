// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/latency_sampler.h"

#include <chrono>
#include <string>

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

void BusyFor(std::chrono::microseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(LatencySamplerTest, RunsEveryCallAndReturnsItsResult) {
  LatencySampler sampler(0);
  int runs = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(sampler.Time([&] { return std::to_string(++runs); }),
              std::to_string(i + 1));
  }
  EXPECT_EQ(runs, 100);
}

TEST(LatencySamplerTest, MeasuresWhatACallTakes) {
  LatencySampler sampler(0);
  for (int i = 0; i < 100; ++i) {
    sampler.Time([] {
      BusyFor(std::chrono::microseconds(20));
      return 0;
    });
  }
  EXPECT_GE(sampler.Quantile(0.5), 20e3);
  EXPECT_LT(sampler.Quantile(0.5), 20e6);
}

TEST(LatencySamplerTest, TakesTheClocksCostOffButNotBelowZero) {
  LatencySampler sampler(1e15);
  sampler.Time([] { return 0; });
  EXPECT_EQ(sampler.Quantile(1), 0);
}

TEST(LatencySamplerTest, TheClocksCostIsSmall) {
  EXPECT_GE(MeasureClockCostNs(), 0);
  EXPECT_LT(MeasureClockCostNs(), 1e6);
}

}  // namespace
}  // namespace firn::bench

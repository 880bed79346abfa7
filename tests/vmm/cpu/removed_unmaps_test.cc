// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/removed_unmaps.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

using cpu::RemovedUnmaps;

TEST(RemovedUnmapsTest, KnowsWhereSomethingWasUnmapped) {
  RemovedUnmaps unmaps;
  EXPECT_EQ(unmaps.LatestIn(0, 1000), 0u);
  unmaps.Add(100, 50, 7);
  EXPECT_EQ(unmaps.LatestIn(50, 50), 0u);
  EXPECT_EQ(unmaps.LatestIn(50, 51), 7u);
  EXPECT_EQ(unmaps.LatestIn(149, 10), 7u);
  EXPECT_EQ(unmaps.LatestIn(150, 10), 0u);
  EXPECT_EQ(unmaps.LatestIn(120, 1), 7u);
}

TEST(RemovedUnmapsTest, WhatNeverSawAnUnmapCostsNothing) {
  RemovedUnmaps unmaps;
  unmaps.Add(100, 50, 0);
  EXPECT_EQ(unmaps.ranges(), 0u);
}

TEST(RemovedUnmapsTest, AnswersAsAListOfEveryAddressDoes) {
  constexpr uint64_t kAddresses = 60;
  std::mt19937 random(1);
  const auto below = [&random](uint64_t end) { return random() % end; };
  RemovedUnmaps unmaps;
  std::vector<uint64_t> expected(kAddresses, 0);
  for (uint64_t epoch = 1; epoch < 2000; ++epoch) {
    const uint64_t base = below(kAddresses);
    const uint64_t bytes = 1 + below(kAddresses - base);
    unmaps.Add(base, bytes, epoch);
    for (uint64_t i = base; i < base + bytes; ++i) expected[i] = epoch;
    const uint64_t first = below(kAddresses);
    const uint64_t count = 1 + below(kAddresses - first);
    uint64_t latest = 0;
    for (uint64_t i = first; i < first + count; ++i) {
      latest = std::max(latest, expected[i]);
    }
    ASSERT_EQ(unmaps.LatestIn(first, count), latest) << epoch;
    ASSERT_LE(unmaps.ranges(), kAddresses);
  }
}

TEST(RemovedUnmapsTest, ForgetsTheOldestWithoutMissingAnUnmap) {
  RemovedUnmaps unmaps;
  const uint64_t count = 10 * RemovedUnmaps::kMaxRanges;
  for (uint64_t i = 0; i < count; ++i) {
    unmaps.Add(10 * i, 5, i + 1);
    ASSERT_LE(unmaps.ranges(), RemovedUnmaps::kMaxRanges);
  }
  for (uint64_t i = 0; i < count; ++i) {
    ASSERT_GE(unmaps.LatestIn(10 * i, 5), i + 1);
  }
  // Of the latest it knows all, and makes up nothing about them.
  const uint64_t known = count - RemovedUnmaps::kMaxRanges / 2 + 1;
  EXPECT_EQ(unmaps.LatestIn(10 * known, 5), known + 1);
  EXPECT_LT(unmaps.LatestIn(10 * known + 5, 5), known);
  EXPECT_LT(unmaps.LatestIn(0, 1), known);
}

}  // namespace
}  // namespace firn::cpu_testing

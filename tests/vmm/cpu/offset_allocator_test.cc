// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/offset_allocator.h"

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

TEST(OffsetAllocatorTest, GivesTheLowestRangeThatFits) {
  cpu::OffsetAllocator offsets;
  EXPECT_EQ(offsets.Allocate(1), 0u);
  EXPECT_EQ(offsets.Allocate(2), 1u);
  EXPECT_EQ(offsets.Allocate(3), 3u);
  EXPECT_EQ(offsets.Allocate(1), 6u);
  offsets.Free(1, 2);
  EXPECT_EQ(offsets.Allocate(3), 7u);
  EXPECT_EQ(offsets.Allocate(1), 1u);
  EXPECT_EQ(offsets.Allocate(1), 2u);
}

TEST(OffsetAllocatorTest, FreeRangesGrowTogether) {
  cpu::OffsetAllocator offsets;
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(offsets.Allocate(1), i);
  offsets.Free(1, 1);
  offsets.Free(3, 1);
  offsets.Free(2, 1);
  EXPECT_EQ(offsets.end(), 5u);
  EXPECT_EQ(offsets.Allocate(3), 1u);
  offsets.Free(1, 3);
  offsets.Free(4, 1);
  EXPECT_EQ(offsets.end(), 1u);
  offsets.Free(0, 1);
  EXPECT_EQ(offsets.end(), 0u);
}

TEST(OffsetAllocatorTest, RangesNeverOverlapWhateverTheOrder) {
  std::mt19937 random(1);
  cpu::OffsetAllocator offsets;
  std::vector<bool> taken(10000, false);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (int step = 0; step < 3000; ++step) {
    if (ranges.empty() || random() % 5 < 3) {
      const uint64_t granules = 1 + random() % 4;
      const uint64_t first = offsets.Allocate(granules);
      for (uint64_t i = first; i < first + granules; ++i) {
        ASSERT_FALSE(taken[i]);
        taken[i] = true;
      }
      ranges.emplace_back(first, granules);
    } else {
      std::swap(ranges[random() % ranges.size()], ranges.back());
      const auto [first, granules] = ranges.back();
      ranges.pop_back();
      offsets.Free(first, granules);
      for (uint64_t i = first; i < first + granules; ++i) taken[i] = false;
    }
  }
  for (const auto& [first, granules] : ranges) offsets.Free(first, granules);
  EXPECT_EQ(offsets.end(), 0u);
}

}  // namespace
}  // namespace firn::cpu_testing

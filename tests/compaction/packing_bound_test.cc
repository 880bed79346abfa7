// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/packing_bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/small_random.h"

namespace firn::testing {
namespace {

uint32_t BoundOf(uint32_t capacity, const std::vector<uint32_t>& items) {
  std::vector<uint32_t> weights(capacity + 1, 0);
  for (const uint32_t item : items) ++weights[item];
  return PackingBound(weights);
}

// For a few items: over all orders, bin by bin, the least bins and in the last
// of them the least weight that each subset can be packed with.
uint32_t LeastBins(uint32_t capacity, const std::vector<uint32_t>& items) {
  struct Packed {
    uint32_t bins = 0;
    uint32_t in_last = 0;
  };
  const size_t subsets = size_t{1} << items.size();
  std::vector<Packed> best(subsets);
  for (size_t subset = 1; subset < subsets; ++subset) {
    best[subset].bins = static_cast<uint32_t>(items.size()) + 1;
    for (size_t i = 0; i < items.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      Packed packed = best[subset ^ (size_t{1} << i)];
      if (packed.bins == 0 || packed.in_last + items[i] > capacity) {
        ++packed.bins;
        packed.in_last = 0;
      }
      packed.in_last += items[i];
      if (packed.bins != best[subset].bins
              ? packed.bins < best[subset].bins
              : packed.in_last < best[subset].in_last) {
        best[subset] = packed;
      }
    }
  }
  return best[subsets - 1].bins;
}

// L2 by its definition (Martello and Toth), one threshold at a time.
uint32_t BoundL2(uint32_t capacity, const std::vector<uint32_t>& items) {
  uint32_t bound = 0;
  for (uint32_t threshold = 0; 2 * threshold <= capacity; ++threshold) {
    uint32_t alone = 0;
    uint32_t large = 0;
    uint32_t room_beside_large = 0;
    uint32_t small_weight = 0;
    for (const uint32_t item : items) {
      if (item > capacity - threshold) {
        ++alone;
      } else if (2 * item > capacity) {
        ++large;
        room_beside_large += capacity - item;
      } else if (item >= threshold) {
        small_weight += item;
      }
    }
    const uint32_t left =
        small_weight - std::min(small_weight, room_beside_large);
    bound = std::max(bound, alone + large + (left + capacity - 1) / capacity);
  }
  return bound;
}

std::vector<uint32_t> RandomItems(SmallRandom* random, uint32_t capacity,
                                  uint32_t count) {
  const uint32_t most = random->Between(1, capacity);
  std::vector<uint32_t> items(count);
  for (uint32_t& item : items) item = random->Between(1, most);
  return items;
}

TEST(PackingBoundTest, NothingNeedsNoBin) {
  EXPECT_EQ(PackingBound({}), 0u);
  EXPECT_EQ(BoundOf(10, {}), 0u);
  EXPECT_EQ(BoundOf(10, {0, 0}), 0u);
}

TEST(PackingBoundTest, WeightOverCapacityRoundsUp) {
  EXPECT_EQ(BoundOf(10, {1}), 1u);
  EXPECT_EQ(BoundOf(10, {5, 5}), 1u);
  EXPECT_EQ(BoundOf(10, {5, 5, 1}), 2u);
  EXPECT_EQ(BoundOf(10, {10, 10, 10}), 3u);
  EXPECT_EQ(BoundOf(1, {1, 1}), 2u);
}

TEST(PackingBoundTest, ItemsOfMoreThanHalfEachHaveABin) {
  EXPECT_EQ(BoundOf(10, {6, 6, 6, 4, 4, 2}), 3u);
  EXPECT_EQ(BoundOf(11, {6, 6, 6}), 3u);
  EXPECT_EQ(BoundOf(11, {5, 5}), 1u);
}

// Weight: 28 of 10, 3 bins. Larger than half: 2. But nothing of 3 and more
// fits beside 8, so that 4, 4 and 4 need two bins more.
TEST(PackingBoundTest, AThresholdTellsWhatFitsBesideLargeItems) {
  EXPECT_EQ(BoundOf(10, {8, 8, 4, 4, 4}), 4u);
}

// Of a little over a (k + 1)th, k go into a bin; by weight alone k + 1 nearly
// would.
TEST(PackingBoundTest, OnlyKOfOverAKPlusFirstShareABin) {
  for (uint32_t k = 1; k <= 7; ++k) {
    const uint32_t capacity = 840;  // divided by each k + 1
    const uint32_t part = capacity / (k + 1);
    EXPECT_EQ(BoundOf(capacity, std::vector<uint32_t>(3 * k, part + 1)), 3u)
        << k;
    EXPECT_EQ(BoundOf(capacity, std::vector<uint32_t>(3 * k + 1, part + 1)), 4u)
        << k;
    // Exactly a (k + 1)th each: they fill the bins.
    EXPECT_EQ(BoundOf(capacity, std::vector<uint32_t>(3 * k + 3, part)), 3u)
        << k;
  }
}

TEST(PackingBoundTest, NeverExceedsTheLeastNumberOfBins) {
  uint32_t exact_hits = 0;
  constexpr uint32_t kCases = 4000;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    SmallRandom random(seed);
    const uint32_t capacity = random.Between(3, 40);
    const std::vector<uint32_t> items =
        RandomItems(&random, capacity, random.Between(1, 9));
    const uint32_t bound = BoundOf(capacity, items);
    const uint32_t least = LeastBins(capacity, items);
    ASSERT_LE(bound, least) << seed;
    if (bound == least) ++exact_hits;
  }
  // As close as bounds of this kind come.
  EXPECT_GT(exact_hits, kCases * 9 / 10);
}

TEST(PackingBoundTest, IsAtLeastL2AndSometimesMore) {
  uint32_t more = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SmallRandom random(seed);
    const uint32_t capacity = random.Between(3, 60);
    const std::vector<uint32_t> items =
        RandomItems(&random, capacity, random.Between(1, 60));
    const uint32_t bound = BoundOf(capacity, items);
    const uint32_t l2 = BoundL2(capacity, items);
    ASSERT_GE(bound, l2) << seed;
    if (bound > l2) ++more;
  }
  EXPECT_GT(more, 5u);
}

// Weights of a granule of 4096 quanta, and more of them than fit in 32 bits
// once multiplied.
TEST(PackingBoundTest, LargeNumbersDoNotOverflow) {
  std::vector<uint32_t> weights(4097, 0);
  weights[4096] = 2000000000;
  weights[2049] = 1000000000;
  weights[1366] = 1000000000;  // each of the former takes one in
  EXPECT_EQ(PackingBound(weights), 3000000000u);
}

}  // namespace
}  // namespace firn::testing

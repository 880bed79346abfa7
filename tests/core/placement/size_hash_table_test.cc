// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/size_hash_table.h"

#include <map>
#include <optional>

#include "gtest/gtest.h"

namespace firn::testing {
namespace {

TEST(SizeHashTableTest, GivesTheBlockOfThatExactSizeThatCameLast) {
  SizeHashTable table;
  table.Push({1000, 512});
  table.Push({2000, 1024});
  table.Push({3000, 512});
  EXPECT_EQ(table.Pop(1536), std::nullopt);
  EXPECT_EQ(table.Pop(512), std::optional<uint64_t>(3000));
  EXPECT_EQ(table.Pop(512), std::optional<uint64_t>(1000));
  EXPECT_EQ(table.Pop(512), std::nullopt);
  EXPECT_EQ(table.Pop(1024), std::optional<uint64_t>(2000));
}

TEST(SizeHashTableTest, DoublesItsBucketsWhenTheLoadExceeds075) {
  SizeHashTable table;
  ASSERT_EQ(table.buckets(), 16u);
  for (uint64_t size = 1; size <= 12; ++size) table.Push({0, size * 512});
  EXPECT_EQ(table.buckets(), 16u);  // 12 / 16 is 0.75
  table.Push({0, 13 * 512});
  EXPECT_EQ(table.buckets(), 32u);
  for (uint64_t size = 14; size <= 24; ++size) table.Push({0, size * 512});
  EXPECT_EQ(table.buckets(), 32u);
  table.Push({0, 25 * 512});
  EXPECT_EQ(table.buckets(), 64u);
}

TEST(SizeHashTableTest, TheLoadCountsSizesNotBlocks) {
  SizeHashTable table;
  for (uint64_t i = 0; i < 1000; ++i) table.Push({i, 512});
  EXPECT_EQ(table.buckets(), 16u);
  EXPECT_EQ(table.bins(), 1u);
  EXPECT_EQ(table.blocks(), 1000u);
}

TEST(SizeHashTableTest, ABinLastsAsLongAsItHoldsABlock) {
  SizeHashTable table;
  for (int i = 0; i < 100; ++i) {
    // One size at a time: the load never exceeds 1 / 16.
    table.Push({7, static_cast<uint64_t>(i + 1) * 512});
    EXPECT_EQ(table.bins(), 1u);
    ASSERT_TRUE(table.Pop(static_cast<uint64_t>(i + 1) * 512).has_value());
    EXPECT_EQ(table.bins(), 0u);
  }
  EXPECT_EQ(table.buckets(), 16u);
}

TEST(SizeHashTableTest, FindsEverySizeAfterManyRehashesInAnyOrder) {
  constexpr uint64_t kSizes = 5000;
  SizeHashTable table;
  for (uint64_t size = 1; size <= kSizes; ++size) {
    table.Push({size, size * 512});
    table.Push({size + kSizes, size * 512});
  }
  EXPECT_EQ(table.buckets(), 8192u);  // 5000 / 4096 is too much
  // 1237 has no factor in common with 5000: every size once.
  for (uint64_t i = 0; i < kSizes; ++i) {
    const uint64_t size = i * 1237 % kSizes + 1;
    ASSERT_EQ(table.Pop(size * 512), std::optional<uint64_t>(size + kSizes));
    ASSERT_EQ(table.Pop(size * 512), std::optional<uint64_t>(size));
    ASSERT_EQ(table.Pop(size * 512), std::nullopt);
  }
  EXPECT_EQ(table.bins(), 0u);
  EXPECT_EQ(table.blocks(), 0u);
}

TEST(SizeHashTableTest, DrainingTakesEveryBlockOnce) {
  SizeHashTable table;
  std::map<uint64_t, uint64_t> expected;  // bytes by start
  for (uint64_t i = 0; i < 200; ++i) {
    const uint64_t bytes = (i % 40 + 1) * 512;
    table.Push({i, bytes});
    expected[i] = bytes;
  }
  std::map<uint64_t, uint64_t> drained;
  for (const FreeRange& block : table.Drain()) {
    EXPECT_TRUE(drained.emplace(block.start, block.bytes).second);
  }
  EXPECT_EQ(drained, expected);
  EXPECT_EQ(table.buckets(), SizeHashTable::kFirstBuckets);
  EXPECT_EQ(table.blocks(), 0u);
  EXPECT_EQ(table.bins(), 0u);
  EXPECT_TRUE(table.Drain().empty());
  EXPECT_EQ(table.Pop(512), std::nullopt);
  table.Push({5, 512});
  EXPECT_EQ(table.Pop(512), std::optional<uint64_t>(5));
}

}  // namespace
}  // namespace firn::testing

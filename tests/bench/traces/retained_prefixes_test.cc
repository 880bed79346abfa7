// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/retained_prefixes.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::bench {
namespace {

using ::testing::ElementsAre;

TEST(RetainedPrefixesTest, GivesTheOldestFirst) {
  RetainedPrefixes prefixes(2);
  prefixes.Add({0, 10, {1}});
  prefixes.Add({1, 20, {2, 3}});
  prefixes.Add({0, 30, {4}});
  EXPECT_EQ(prefixes.bytes(), 60u);
  EXPECT_THAT(prefixes.TakeOldest().blocks, ElementsAre(1));
  const RetainedPrefix second = prefixes.TakeOldest();
  EXPECT_EQ(second.model, 1u);
  EXPECT_EQ(second.bytes, 20u);
  EXPECT_THAT(second.blocks, ElementsAre(2, 3));
  EXPECT_THAT(prefixes.TakeOldest().blocks, ElementsAre(4));
  EXPECT_EQ(prefixes.bytes(), 0u);
}

TEST(RetainedPrefixesTest, TakesFromTheMiddleOfOneModel) {
  RetainedPrefixes prefixes(2);
  for (uint64_t i = 0; i < 6; ++i) {
    prefixes.Add({static_cast<uint32_t>(i % 2), 1, {i}});
  }
  EXPECT_EQ(prefixes.count(0), 3u);
  EXPECT_EQ(prefixes.count(1), 3u);
  EXPECT_THAT(prefixes.Take(1, 1).blocks, ElementsAre(3));
  EXPECT_EQ(prefixes.count(1), 2u);
  // Slots are used again without mixing up the order of use.
  prefixes.Add({0, 1, {6}});
  for (const uint64_t block : std::vector<uint64_t>{0, 1, 2, 4, 5, 6}) {
    EXPECT_THAT(prefixes.TakeOldest().blocks, ElementsAre(block));
  }
}

TEST(RetainedPrefixesTest, EveryPrefixOfAModelCanBePickedUntilNoneIsLeft) {
  RetainedPrefixes prefixes(1);
  for (uint64_t i = 0; i < 100; ++i) prefixes.Add({0, 1, {i}});
  std::vector<bool> taken(100, false);
  while (prefixes.count(0) > 0) {
    const RetainedPrefix prefix =
        prefixes.Take(0, prefixes.count(0) * 7 % prefixes.count(0));
    ASSERT_EQ(prefix.blocks.size(), 1u);
    EXPECT_FALSE(taken[prefix.blocks[0]]);
    taken[prefix.blocks[0]] = true;
  }
  EXPECT_EQ(prefixes.bytes(), 0u);
  EXPECT_THAT(taken, ::testing::Each(true));
}

}  // namespace
}  // namespace firn::bench

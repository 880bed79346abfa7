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

// A prefix of one unit for each id.
RetainedPrefix Prefix(uint32_t model, uint64_t bytes,
                      const std::vector<uint32_t>& ids) {
  RetainedPrefix prefix = {model, bytes, {}};
  for (const uint32_t id : ids) prefix.allocations.push_back({id, 1});
  return prefix;
}

std::vector<uint32_t> IdsOf(const RetainedPrefix& prefix) {
  std::vector<uint32_t> ids;
  for (const KvAllocation& allocation : prefix.allocations) {
    ids.push_back(allocation.id);
  }
  return ids;
}

TEST(RetainedPrefixesTest, GivesTheOldestFirst) {
  RetainedPrefixes prefixes(2);
  prefixes.Add(Prefix(0, 10, {1}));
  prefixes.Add(Prefix(1, 20, {2, 3}));
  prefixes.Add(Prefix(0, 30, {4}));
  EXPECT_EQ(prefixes.bytes(), 60u);
  EXPECT_THAT(IdsOf(prefixes.TakeOldest()), ElementsAre(1));
  const RetainedPrefix second = prefixes.TakeOldest();
  EXPECT_EQ(second.model, 1u);
  EXPECT_EQ(second.bytes, 20u);
  EXPECT_THAT(IdsOf(second), ElementsAre(2, 3));
  EXPECT_THAT(IdsOf(prefixes.TakeOldest()), ElementsAre(4));
  EXPECT_EQ(prefixes.bytes(), 0u);
}

TEST(RetainedPrefixesTest, TakesFromTheMiddleOfOneModel) {
  RetainedPrefixes prefixes(2);
  for (uint32_t i = 0; i < 6; ++i) {
    prefixes.Add(Prefix(i % 2, 1, {i}));
  }
  EXPECT_EQ(prefixes.count(0), 3u);
  EXPECT_EQ(prefixes.count(1), 3u);
  EXPECT_THAT(IdsOf(prefixes.Take(1, 1)), ElementsAre(3));
  EXPECT_EQ(prefixes.count(1), 2u);
  // Slots are used again without mixing up the order of use.
  prefixes.Add(Prefix(0, 1, {6}));
  for (const uint32_t id : std::vector<uint32_t>{0, 1, 2, 4, 5, 6}) {
    EXPECT_THAT(IdsOf(prefixes.TakeOldest()), ElementsAre(id));
  }
}

TEST(RetainedPrefixesTest, EveryPrefixOfAModelCanBePickedUntilNoneIsLeft) {
  RetainedPrefixes prefixes(1);
  for (uint32_t i = 0; i < 100; ++i) prefixes.Add(Prefix(0, 1, {i}));
  std::vector<bool> taken(100, false);
  while (prefixes.count(0) > 0) {
    const RetainedPrefix prefix =
        prefixes.Take(0, prefixes.count(0) * 7 % prefixes.count(0));
    ASSERT_EQ(prefix.allocations.size(), 1u);
    EXPECT_FALSE(taken[prefix.allocations[0].id]);
    taken[prefix.allocations[0].id] = true;
  }
  EXPECT_EQ(prefixes.bytes(), 0u);
  EXPECT_THAT(taken, ::testing::Each(true));
}

}  // namespace
}  // namespace firn::bench

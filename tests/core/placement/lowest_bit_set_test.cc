// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/lowest_bit_set.h"

#include <random>
#include <set>

#include "gtest/gtest.h"

namespace firn::testing {
namespace {

TEST(LowestBitSetTest, IsEmptyAtFirst) {
  LowestBitSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.Lowest(), LowestBitSet::kNone);
  EXPECT_FALSE(set.Contains(0));
  EXPECT_FALSE(set.Erase(0));
}

TEST(LowestBitSetTest, SaysWhetherItChanged) {
  LowestBitSet set;
  EXPECT_TRUE(set.Insert(70));
  EXPECT_FALSE(set.Insert(70));
  EXPECT_EQ(set.count(), 1u);
  EXPECT_TRUE(set.Erase(70));
  EXPECT_FALSE(set.Erase(70));
  EXPECT_TRUE(set.empty());
}

TEST(LowestBitSetTest, KeepsMembersWhenALevelIsAdded) {
  LowestBitSet set;
  set.Insert(5);
  set.Insert(64 * 64 * 64);  // needs a fourth level
  EXPECT_EQ(set.Lowest(), 5u);
  set.Erase(5);
  EXPECT_EQ(set.Lowest(), 64u * 64 * 64);
}

TEST(LowestBitSetTest, AssignFirstReplacesWhatWasThere) {
  LowestBitSet set;
  set.Insert(5000);
  for (const uint64_t count : {1u, 63u, 64u, 65u, 4096u, 4097u, 3u, 0u}) {
    set.AssignFirst(count);
    EXPECT_EQ(set.count(), count);
    EXPECT_FALSE(set.Contains(count));
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(set.Lowest(), i);
      ASSERT_TRUE(set.Erase(i));
    }
    EXPECT_EQ(set.Lowest(), LowestBitSet::kNone);
  }
}

TEST(LowestBitSetTest, AgreesWithAnOrderedSet) {
  LowestBitSet set;
  std::set<uint64_t> expected;
  std::mt19937_64 random(1);
  for (int i = 0; i < 50000; ++i) {
    const uint64_t value = random() % (i < 25000 ? 300 : 300000);
    if (random() % 2 == 0) {
      ASSERT_EQ(set.Insert(value), expected.insert(value).second);
    } else {
      ASSERT_EQ(set.Erase(value), expected.erase(value) == 1);
    }
    ASSERT_EQ(set.count(), expected.size());
    ASSERT_EQ(set.Lowest(),
              expected.empty() ? LowestBitSet::kNone : *expected.begin());
  }
}

TEST(LowestBitSetTest, FindsTheLeastMemberFromANumberOn) {
  LowestBitSet set;
  EXPECT_EQ(set.LowestFrom(0), LowestBitSet::kNone);
  for (const uint64_t value : {3u, 63u, 64u, 5000u, 300'000u}) {
    set.Insert(value);
  }
  EXPECT_EQ(set.LowestFrom(0), 3u);
  EXPECT_EQ(set.LowestFrom(3), 3u);
  EXPECT_EQ(set.LowestFrom(4), 63u);
  EXPECT_EQ(set.LowestFrom(64), 64u);
  EXPECT_EQ(set.LowestFrom(65), 5000u);
  EXPECT_EQ(set.LowestFrom(5001), 300'000u);
  EXPECT_EQ(set.LowestFrom(300'001), LowestBitSet::kNone);
  EXPECT_EQ(set.LowestFrom(uint64_t{1} << 40), LowestBitSet::kNone);
  set.Erase(5000);
  EXPECT_EQ(set.LowestFrom(65), 300'000u);
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/free_range_tree.h"

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace firn::testing {
namespace {

// The range that holds `address`; an empty one if none does.
FreeRange Holding(const FreeRangeTree& tree, uint64_t address) {
  const FreeRangeTree::Node below = tree.Around(address).below;
  if (below == FreeRangeTree::kNone || address >= tree.range(below).end()) {
    return {};
  }
  return tree.range(below);
}

FreeRange Give(FreeRangeTree* tree, FreeRange range) {
  return tree->range(tree->Give(range, tree->Around(range.start)));
}

TEST(FreeRangeTreeTest, FindsTheLowestRangeThatIsLongEnough) {
  FreeRangeTree tree;
  tree.Insert({100, 10});
  tree.Insert({200, 30});
  tree.Insert({300, 20});
  tree.Insert({400, 30});
  EXPECT_EQ(tree.range(tree.FirstFit(10)).start, 100u);
  EXPECT_EQ(tree.range(tree.FirstFit(11)).start, 200u);
  EXPECT_EQ(tree.range(tree.FirstFit(30)).start, 200u);
  EXPECT_EQ(tree.FirstFit(31), FreeRangeTree::kNone);
}

TEST(FreeRangeTreeTest, FindsNothingWhenEmpty) {
  FreeRangeTree tree;
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(tree.FirstFit(1), FreeRangeTree::kNone);
  EXPECT_EQ(Holding(tree, 7).bytes, 0u);
}

TEST(FreeRangeTreeTest, TakingTheMiddleLeavesBothEnds) {
  FreeRangeTree tree;
  const FreeRangeTree::Rest rest = tree.Take(tree.Insert({100, 50}), 110, 20);
  EXPECT_EQ(tree.range(rest.below).start, 100u);
  EXPECT_EQ(tree.range(rest.above).start, 130u);
  EXPECT_EQ(Holding(tree, 100).bytes, 10u);
  EXPECT_EQ(Holding(tree, 110).bytes, 0u);
  EXPECT_EQ(Holding(tree, 129).bytes, 0u);
  EXPECT_EQ(Holding(tree, 130).bytes, 20u);
}

TEST(FreeRangeTreeTest, TakingAllLeavesNothing) {
  FreeRangeTree tree;
  const FreeRangeTree::Rest rest = tree.Take(tree.Insert({100, 50}), 100, 50);
  EXPECT_EQ(rest.below, FreeRangeTree::kNone);
  EXPECT_EQ(rest.above, FreeRangeTree::kNone);
  EXPECT_TRUE(tree.empty());
}

TEST(FreeRangeTreeTest, GivingJoinsWithBothNeighbours) {
  FreeRangeTree tree;
  Give(&tree, {100, 10});
  Give(&tree, {120, 10});
  const FreeRange joined = Give(&tree, {110, 10});
  EXPECT_EQ(joined.start, 100u);
  EXPECT_EQ(joined.bytes, 30u);
  EXPECT_EQ(tree.range(tree.FirstFit(30)).start, 100u);
}

TEST(FreeRangeTreeTest, GivingDoesNotJoinAcrossAGap) {
  FreeRangeTree tree;
  Give(&tree, {100, 10});
  const FreeRange given = Give(&tree, {111, 10});
  EXPECT_EQ(given.start, 111u);
  EXPECT_EQ(tree.FirstFit(11), FreeRangeTree::kNone);
}

// Takes and gives blocks at random, beside a plain ordered map.
TEST(FreeRangeTreeTest, AgreesWithAPlainMap) {
  constexpr uint64_t kEnd = 100000;
  FreeRangeTree tree;
  tree.Insert({0, kEnd});
  std::map<uint64_t, uint64_t> expected = {{0, kEnd}};
  std::vector<FreeRange> taken;
  std::mt19937_64 random(2);
  for (int i = 0; i < 30000; ++i) {
    if (taken.empty() || random() % 100 < 52) {
      const uint64_t bytes = 1 + random() % (random() % 2 == 0 ? 30 : 900);
      auto fit = expected.begin();
      while (fit != expected.end() && fit->second < bytes) ++fit;
      const FreeRangeTree::Node node = tree.FirstFit(bytes);
      ASSERT_EQ(node == FreeRangeTree::kNone, fit == expected.end());
      if (fit == expected.end()) continue;
      const auto [start, length] = *fit;
      ASSERT_EQ(tree.range(node).start, start);
      ASSERT_EQ(tree.range(node).bytes, length);
      tree.Take(node, start, bytes);
      expected.erase(fit);
      if (length > bytes) expected[start + bytes] = length - bytes;
      taken.push_back({start, bytes});
    } else {
      std::swap(taken[random() % taken.size()], taken.back());
      const FreeRange given = taken.back();
      taken.pop_back();
      auto inserted = expected.emplace(given.start, given.bytes).first;
      if (const auto next = std::next(inserted);
          next != expected.end() && next->first == given.end()) {
        inserted->second += next->second;
        expected.erase(next);
      }
      if (inserted != expected.begin()) {
        const auto previous = std::prev(inserted);
        if (previous->first + previous->second == inserted->first) {
          previous->second += inserted->second;
          expected.erase(inserted);
          inserted = previous;
        }
      }
      const FreeRange joined = Give(&tree, given);
      ASSERT_EQ(joined.start, inserted->first);
      ASSERT_EQ(joined.bytes, inserted->second);
    }
  }
}

TEST(FreeRangeTreeTest, TellsWhichPartsOfARangeAreInIt) {
  FreeRangeTree tree;
  tree.Give({100, 100});
  tree.Give({300, 100});
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  const auto add = [&parts](FreeRange part) {
    parts.emplace_back(part.start, part.bytes);
  };
  tree.ForEachPart({0, 100}, add);
  tree.ForEachPart({200, 100}, add);
  tree.ForEachPart({400, 100}, add);
  EXPECT_TRUE(parts.empty());
  tree.ForEachPart({150, 200}, add);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0], std::make_pair(uint64_t{150}, uint64_t{50}));
  EXPECT_EQ(parts[1], std::make_pair(uint64_t{300}, uint64_t{50}));
  EXPECT_TRUE(tree.Contains({150, 50}));
  EXPECT_FALSE(tree.Contains({150, 51}));
  EXPECT_FALSE(tree.Contains({200, 1}));
}

TEST(FreeRangeTreeTest, RemovesThePartsOfARange) {
  FreeRangeTree tree;
  tree.Give({100, 100});
  tree.Give({300, 100});
  tree.Give({500, 100});
  tree.Remove({150, 400});
  EXPECT_TRUE(tree.Contains({100, 50}));
  EXPECT_TRUE(tree.Contains({550, 50}));
  EXPECT_EQ(tree.FirstPart({150, 400}).bytes, 0u);
  EXPECT_EQ(tree.FirstFit(51), FreeRangeTree::kNone);
  tree.Remove({0, 1000});
  EXPECT_TRUE(tree.empty());
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/buddy_arena.h"

#include <optional>

#include "gtest/gtest.h"

namespace firn::testing {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(BuddyArenaTest, OrdersArePowersOfTwoFrom512Bytes) {
  EXPECT_EQ(BuddyArena::OrderFor(1), 0u);
  EXPECT_EQ(BuddyArena::OrderFor(512), 0u);
  EXPECT_EQ(BuddyArena::OrderFor(513), 1u);
  EXPECT_EQ(BuddyArena::OrderFor(kMiB), 11u);
  EXPECT_EQ(BuddyArena::OrderFor(kMiB + 1), 12u);
  EXPECT_EQ(BuddyArena::BytesOf(11), kMiB);
  EXPECT_EQ(BuddyArena::LargestOrderWithin(512), 0u);
  EXPECT_EQ(BuddyArena::LargestOrderWithin(kMiB - 1), 10u);
  EXPECT_EQ(BuddyArena::LargestOrderWithin(kMiB), 11u);
}

TEST(BuddyArenaTest, BlocksJoinWithTheBuddyThatXorNamesOnly) {
  BuddyArena arena;
  arena.Give({4096, BuddyArena::OrderFor(4096)});
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(arena.Take(1), 4096 + i * 1024);
  }
  EXPECT_FALSE(arena.HasFree(0));
  // The two in the middle touch, but 5120 ^ 1024 is 4096.
  EXPECT_EQ(arena.Give({5120, 1}).order, 1u);
  EXPECT_EQ(arena.Give({6144, 1}).order, 1u);
  EXPECT_FALSE(arena.HasFree(2));
  const BuddyArena::Block half = arena.Give({7168, 1});
  EXPECT_EQ(half.address, 6144u);
  EXPECT_EQ(half.order, 2u);
  const BuddyArena::Block all = arena.Give({4096, 1});
  EXPECT_EQ(all.address, 4096u);
  EXPECT_EQ(all.order, 3u);
}

TEST(BuddyArenaTest, ABlockDoesNotJoinWithASmallerOneBesideIt) {
  BuddyArena arena;
  arena.Give({0, 2});
  arena.Give({2048, 1});
  const uint64_t block = arena.Take(2);
  EXPECT_EQ(block, 0u);
  EXPECT_EQ(arena.Give({block, 2}).order, 2u);
  EXPECT_FALSE(arena.HasFree(3));
}

TEST(BuddyArenaTest, ARangeIsDividedIntoBlocksAtMultiplesOfTheirSizes) {
  BuddyArena arena;
  arena.GiveRange({512, 4096});  // 512 at 512, 1024, 2048, 512 at 4096
  EXPECT_FALSE(arena.HasFree(3));
  EXPECT_EQ(arena.Take(2), 2048u);
  EXPECT_EQ(arena.Take(1), 1024u);
  EXPECT_EQ(arena.Take(0), 512u);
  EXPECT_EQ(arena.Take(0), 4096u);
  EXPECT_FALSE(arena.HasFree(0));
}

TEST(BuddyArenaTest, TakesABlockOutOfTheOneAroundIt) {
  BuddyArena arena;
  arena.GiveRange({0, 8192});
  EXPECT_TRUE(arena.TakeAt({3072, 1}));
  EXPECT_FALSE(arena.TakeAt({3072, 1}));
  EXPECT_FALSE(arena.TakeAt({2048, 2}));
  EXPECT_EQ(arena.Take(1), 2048u);
  EXPECT_EQ(arena.Take(2), 0u);
  EXPECT_EQ(arena.Take(3), 4096u);
}

TEST(BuddyArenaTest, TakesTheLowestOfAnOrderIfItIsAligned) {
  BuddyArena arena;
  arena.GiveRange({1024, 1024});
  arena.GiveRange({4096, 1024});
  EXPECT_EQ(arena.TakeExact(1, 2048), std::nullopt);
  EXPECT_EQ(arena.TakeExact(0, 512), std::nullopt);
  EXPECT_EQ(arena.TakeExact(1, 1024), std::optional<uint64_t>(1024));
  EXPECT_EQ(arena.TakeExact(1, 2048), std::optional<uint64_t>(4096));
}

TEST(BuddyArenaTest, RemovesWhatIsFreeOfARange) {
  BuddyArena arena;
  arena.GiveRange({0, 8192});
  ASSERT_EQ(arena.Take(0), 0u);
  // Out of the middle of the upper half, and of what lies around the block.
  arena.RemoveRange({0, 5120});
  EXPECT_FALSE(arena.HasFree(3));
  EXPECT_EQ(arena.Take(2), 6144u);
  EXPECT_EQ(arena.Take(0), 5120u);
  EXPECT_EQ(arena.Take(0), 5632u);
  EXPECT_FALSE(arena.HasFree(0));
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/buddy_arena.h"

#include "gtest/gtest.h"

namespace firn::bench {
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
  arena.AddRoot(4096, BuddyArena::OrderFor(4096));
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(arena.Allocate(1024), 4096 + i * 1024);
  }
  EXPECT_FALSE(arena.HasFree(0));
  // The two in the middle touch, but 5120 ^ 1024 is 4096.
  EXPECT_EQ(arena.Free(5120).joined_order, 1u);
  EXPECT_EQ(arena.Free(6144).joined_order, 1u);
  EXPECT_FALSE(arena.HasFree(2));
  const BuddyArena::FreedBlock half = arena.Free(7168);
  EXPECT_EQ(half.joined_address, 6144u);
  EXPECT_EQ(half.joined_order, 2u);
  const BuddyArena::FreedBlock all = arena.Free(4096);
  EXPECT_EQ(all.joined_address, 4096u);
  EXPECT_EQ(all.joined_order, 3u);
}

TEST(BuddyArenaTest, ARootDoesNotJoinWithSmallerOnesBesideIt) {
  BuddyArena arena;
  arena.AddRoot(0, 2);
  arena.AddRoot(2048, 1);
  const uint64_t block = arena.Allocate(2048);
  EXPECT_EQ(block, 0u);
  EXPECT_EQ(arena.Free(block).joined_order, 2u);
  EXPECT_FALSE(arena.HasFree(3));
}

TEST(BuddyArenaTest, ARemovedRootIsNoLongerThere) {
  BuddyArena arena;
  arena.AddRoot(0, 3);
  const uint64_t block = arena.Allocate(700);
  EXPECT_EQ(arena.Free(block).bytes, 700u);
  arena.RemoveRoot(0, 3);
  EXPECT_FALSE(arena.HasFree(0));
}

TEST(BuddyArenaTest, KnowsNoOtherAddresses) {
  BuddyArena arena;
  arena.AddRoot(0, 3);
  const uint64_t block = arena.Allocate(1024);
  EXPECT_EQ(arena.Free(block + 512).bytes, 0u);
  EXPECT_EQ(arena.Free(block).bytes, 1024u);
  EXPECT_EQ(arena.Free(block).bytes, 0u);
}

}  // namespace
}  // namespace firn::bench

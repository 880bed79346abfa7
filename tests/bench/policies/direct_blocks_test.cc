// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/direct_blocks.h"

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

TEST(DirectBlocksTest, RemembersTheBytesOfABlockUntilItIsRemoved) {
  DirectBlocks blocks(4096);
  const uint64_t a = blocks.Add(5000);
  const uint64_t b = blocks.Add(7000);
  EXPECT_NE(a, b);
  EXPECT_TRUE(DirectBlocks::MayHold(a));
  EXPECT_EQ(blocks.Remove(b), 7000u);
  EXPECT_EQ(blocks.Remove(b), 0u);
  EXPECT_EQ(blocks.Remove(a), 5000u);
}

TEST(DirectBlocksTest, UsesTheLowestAddressThatIsFree) {
  DirectBlocks blocks(4096);
  const uint64_t a = blocks.Add(1);
  const uint64_t b = blocks.Add(2);
  blocks.Remove(b);
  blocks.Remove(a);
  EXPECT_EQ(blocks.Add(3), a);
  EXPECT_EQ(blocks.Add(4), b);
}

TEST(DirectBlocksTest, KnowsNoOtherAddresses) {
  DirectBlocks blocks(4096);
  const uint64_t a = blocks.Add(5000);
  EXPECT_FALSE(DirectBlocks::MayHold(0));
  EXPECT_EQ(blocks.Remove(0), 0u);
  EXPECT_EQ(blocks.Remove(a + 512), 0u);
  EXPECT_EQ(blocks.Remove(a + 4096), 0u);
}

}  // namespace
}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/block_contents.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

TEST(BlockContentsTest, EveryChangedByteIsNoticed) {
  for (const size_t bytes : {1u, 7u, 8u, 9u, 64u, 511u}) {
    std::vector<unsigned char> block(bytes);
    FillBlock(block.data(), bytes, 5);
    EXPECT_TRUE(BlockIsIntact(block.data(), bytes, 5));
    for (unsigned char& byte : block) {
      byte ^= 0x10;
      EXPECT_FALSE(BlockIsIntact(block.data(), bytes, 5));
      byte ^= 0x10;
    }
  }
}

TEST(BlockContentsTest, AnotherBlocksContentsAreNoticed) {
  std::vector<unsigned char> block(4096);
  FillBlock(block.data(), block.size(), 5);
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    EXPECT_EQ(BlockIsIntact(block.data(), block.size(), seed), seed == 5);
  }
}

TEST(BlockContentsTest, ContentsAtTheWrongOffsetAreNoticed) {
  std::vector<unsigned char> block(4096);
  FillBlock(block.data(), block.size(), 5);
  std::memmove(block.data(), block.data() + 512, block.size() - 512);
  EXPECT_FALSE(BlockIsIntact(block.data(), block.size() - 512, 5));
}

TEST(BlockContentsTest, NothingBeyondTheEndIsWritten) {
  std::vector<unsigned char> block(32, 0xee);
  FillBlock(block.data(), 13, 1);
  for (size_t i = 13; i < block.size(); ++i) EXPECT_EQ(block[i], 0xee);
}

}  // namespace
}  // namespace firn::bench

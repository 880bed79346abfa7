// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/primitive_blocks.h"

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

TEST(PrimitiveBlocksTest, NewChunksAreOneActiveBlock) {
  PrimitiveBlocks blocks;
  const ChunkRun run = blocks.Create(4, 0);
  EXPECT_EQ(run.chunks, 4u);
  EXPECT_EQ(blocks.chunks(), 4u);
  EXPECT_EQ(blocks.free_chunks(), 0u);
  EXPECT_FALSE(blocks.BestFit(1, 0).has_value());
  EXPECT_TRUE(blocks.ActiveAt(run.first).has_value());
  EXPECT_FALSE(blocks.ActiveAt(run.first + 1).has_value());
}

TEST(PrimitiveBlocksTest, TakingTheMiddleLeavesTwoFreeBlocks) {
  PrimitiveBlocks blocks;
  const ChunkRun run = blocks.Create(8, 0);
  blocks.Give(run.first);
  EXPECT_EQ(blocks.Take({run.first + 3, 2}).chunks, 2u);
  EXPECT_EQ(blocks.free_chunks(), 6u);
  EXPECT_EQ(blocks.BestFit(1, 0)->first, run.first);
  EXPECT_EQ(blocks.BestFit(1, 0)->chunks, 3u);
  EXPECT_EQ(blocks.Largest(0).first, run.first + 5);
  // Freed, it is joined with both.
  blocks.Give(run.first + 3);
  EXPECT_EQ(blocks.BestFit(8, 0)->first, run.first);
  EXPECT_EQ(blocks.BestFit(1, 0)->chunks, 8u);
}

TEST(PrimitiveBlocksTest, WhatIsTakenEndsWithTheBlock) {
  PrimitiveBlocks blocks;
  const ChunkRun low = blocks.Create(2, 0);
  const ChunkRun high = blocks.Create(2, 0);
  ASSERT_EQ(high.first, low.end());
  blocks.Give(low.first);
  blocks.Give(high.first);
  // Two pieces, not one of four chunks.
  EXPECT_FALSE(blocks.BestFit(3, 0).has_value());
  EXPECT_EQ(blocks.Take({low.first + 1, 3}).chunks, 1u);
  EXPECT_EQ(blocks.FreeChunksOf(0), 3u);
}

TEST(PrimitiveBlocksTest, EachStreamHasItsOwnFreeBlocks) {
  PrimitiveBlocks blocks;
  const ChunkRun zero = blocks.Create(2, 0);
  const ChunkRun one = blocks.Create(3, 1);
  blocks.Give(zero.first);
  blocks.Give(one.first);
  EXPECT_FALSE(blocks.BestFit(3, 0).has_value());
  EXPECT_EQ(blocks.Largest(0).first, zero.first);
  EXPECT_EQ(blocks.FreeChunksOf(0), 2u);
  EXPECT_EQ(blocks.FreeChunksOf(1), 3u);
  EXPECT_EQ(blocks.FreeChunksOf(2), 0u);
  EXPECT_EQ(blocks.AnyFree(0).first, one.first);
  EXPECT_EQ(blocks.AnyFree(1).first, zero.first);
}

TEST(PrimitiveBlocksTest, DestroyedChunksSeparateTheirNeighbours) {
  PrimitiveBlocks blocks;
  const ChunkRun run = blocks.Create(3, 0);
  blocks.Give(run.first);
  blocks.Take({run.first + 1, 1});
  blocks.Destroy(run.first + 1);
  EXPECT_EQ(blocks.chunks(), 2u);
  // Their address is used again, but as a piece of its own.
  const ChunkRun again = blocks.Create(1, 0);
  EXPECT_EQ(again.first, run.first + 1);
  blocks.Give(again.first);
  EXPECT_EQ(blocks.free_chunks(), 3u);
  EXPECT_FALSE(blocks.BestFit(2, 0).has_value());
}

}  // namespace
}  // namespace firn::bench

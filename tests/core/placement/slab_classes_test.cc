// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/slab_classes.h"

#include "gtest/gtest.h"

namespace firn::testing {
namespace {

TEST(SlabClassesTest, AreExactUpTo8KiB) {
  EXPECT_EQ(SlabClassOf(1).block_bytes, 512u);
  EXPECT_EQ(SlabClassOf(512).block_bytes, 512u);
  EXPECT_EQ(SlabClassOf(513).block_bytes, 1024u);
  EXPECT_EQ(SlabClassOf(7681).block_bytes, 8192u);
  EXPECT_EQ(SlabClassOf(8192).block_bytes, 8192u);
}

TEST(SlabClassesTest, AreEightPerPowerOfTwoAbove) {
  EXPECT_EQ(SlabClassOf(8193).block_bytes, 9216u);
  EXPECT_EQ(SlabClassOf(9217).block_bytes, 10240u);
  EXPECT_EQ(SlabClassOf(16384).block_bytes, 16384u);
  EXPECT_EQ(SlabClassOf(16385).block_bytes, 18432u);
  EXPECT_EQ(SlabClassOf(192 << 10).block_bytes, uint64_t{192} << 10);
}

TEST(SlabClassesTest, AreNumberedWithoutGapsInOrderOfSize) {
  SlabClass previous = SlabClassOf(1);
  EXPECT_EQ(previous.index, 0u);
  for (uint64_t bytes = 2; bytes <= (4 << 20); ++bytes) {
    const SlabClass current = SlabClassOf(bytes);
    ASSERT_GE(current.block_bytes, bytes);
    if (bytes <= previous.block_bytes) {
      ASSERT_EQ(current.index, previous.index) << bytes;
      ASSERT_EQ(current.block_bytes, previous.block_bytes) << bytes;
    } else {
      ASSERT_EQ(current.index, previous.index + 1) << bytes;
    }
    previous = current;
  }
}

}  // namespace
}  // namespace firn::testing

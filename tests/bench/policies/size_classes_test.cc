// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/size_classes.h"

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

TEST(SizeClassesTest, AreExactUpTo8KiB) {
  EXPECT_EQ(SizeClassOf(1).block_bytes, 512u);
  EXPECT_EQ(SizeClassOf(512).block_bytes, 512u);
  EXPECT_EQ(SizeClassOf(513).block_bytes, 1024u);
  EXPECT_EQ(SizeClassOf(7681).block_bytes, 8192u);
  EXPECT_EQ(SizeClassOf(8192).block_bytes, 8192u);
}

TEST(SizeClassesTest, AreEightPerPowerOfTwoAbove) {
  EXPECT_EQ(SizeClassOf(8193).block_bytes, 9216u);
  EXPECT_EQ(SizeClassOf(9217).block_bytes, 10240u);
  EXPECT_EQ(SizeClassOf(16384).block_bytes, 16384u);
  EXPECT_EQ(SizeClassOf(16385).block_bytes, 18432u);
  EXPECT_EQ(SizeClassOf(192 << 10).block_bytes, uint64_t{192} << 10);
}

TEST(SizeClassesTest, AreNumberedWithoutGapsInOrderOfSize) {
  SizeClass previous = SizeClassOf(1);
  EXPECT_EQ(previous.index, 0u);
  for (uint64_t bytes = 2; bytes <= (4 << 20); ++bytes) {
    const SizeClass current = SizeClassOf(bytes);
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
}  // namespace firn::bench

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/slab_shape.h"

#include "gtest/gtest.h"

namespace firn::testing {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGranule = 2048 * kKiB;

TEST(SlabShapeTest, OneGranuleDoesIfAnEighthOrLessIsLeftOver) {
  EXPECT_EQ(SlabGranules(512, kGranule), 1u);
  EXPECT_EQ(SlabGranules(192 * kKiB, kGranule), 1u);   // 128 KiB
  EXPECT_EQ(SlabGranules(896 * kKiB, kGranule), 1u);   // 256 KiB: an eighth
  EXPECT_EQ(SlabGranules(1024 * kKiB, kGranule), 1u);  // nothing
}

TEST(SlabShapeTest, MoreGranulesWhereThatLeavesLess) {
  // 3 blocks leave 320 KiB of 1 granule, 7 blocks 64 KiB of 2.
  EXPECT_EQ(SlabGranules(576 * kKiB, kGranule), 2u);
  // 2 leave 640 KiB of 1, 5 leave 576 of 2, 8 leave 512 of 3: less than 1/8.
  EXPECT_EQ(SlabGranules(704 * kKiB, kGranule), 3u);
}

TEST(SlabShapeTest, BlocksLongerThanAGranuleHaveLongerSlabs) {
  EXPECT_EQ(SlabGranules(8 * kKiB, 4 * kKiB), 2u);
  EXPECT_EQ(SlabGranules(9 * kKiB, 4 * kKiB), 5u);  // 2 blocks of 20 KiB
}

}  // namespace
}  // namespace firn::testing

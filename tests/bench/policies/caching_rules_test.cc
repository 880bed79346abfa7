// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/caching_rules.h"

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

TEST(CachingRulesTest, BlocksAreWholeUnitsOf512Bytes) {
  EXPECT_EQ(CachedBlockBytes(1, 0), 512u);
  EXPECT_EQ(CachedBlockBytes(512, 0), 512u);
  EXPECT_EQ(CachedBlockBytes(513, 0), 1024u);
  EXPECT_EQ(CachedBlockBytes(3 * kMiB + 1, 0), 3 * kMiB + 512);
}

TEST(CachingRulesTest, DivisionsRoundToStepsBetweenPowersOfTwo) {
  // Four steps from 4096 on: 5120, 6144, 7168, 8192.
  EXPECT_EQ(CachedBlockBytes(4097, 4), 5120u);
  EXPECT_EQ(CachedBlockBytes(5120, 4), 5120u);
  EXPECT_EQ(CachedBlockBytes(7169, 4), 8192u);
  EXPECT_EQ(CachedBlockBytes(8192, 4), 8192u);
  // Eight from 2 MiB on: 256 KiB each.
  EXPECT_EQ(CachedBlockBytes(3 * kMiB + 1, 8), 3 * kMiB + 256 * kKiB);
}

TEST(CachingRulesTest, DivisionsLeaveSmallRequestsAlone) {
  EXPECT_EQ(CachedBlockBytes(1, 4), 512u);
  EXPECT_EQ(CachedBlockBytes(1025, 4), 1536u);
  EXPECT_EQ(CachedBlockBytes(2049, 4), 2560u);
}

TEST(CachingRulesTest, ASingleDivisionIsNone) {
  EXPECT_EQ(CachedBlockBytes(5000, 1), 5120u);
  EXPECT_EQ(CachedBlockBytes(10000, 1), 10240u);
}

TEST(CachingRulesTest, SegmentsHaveThreeKindsOfSize) {
  EXPECT_EQ(CachingSegmentBytes(512), 2 * kMiB);
  EXPECT_EQ(CachingSegmentBytes(kMiB), 2 * kMiB);
  EXPECT_EQ(CachingSegmentBytes(kMiB + 512), 20 * kMiB);
  EXPECT_EQ(CachingSegmentBytes(10 * kMiB - 512), 20 * kMiB);
  EXPECT_EQ(CachingSegmentBytes(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(CachingSegmentBytes(10 * kMiB + 512), 12 * kMiB);
}

}  // namespace
}  // namespace firn::bench

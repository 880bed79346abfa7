// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/stream_value.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace firn::cpu {
namespace {

TEST(StreamValueTest, GeqIsSignedSoThatCountersMayWrap) {
  EXPECT_TRUE(IsSatisfied<uint32_t>(5, 5, kWaitValueGeq));
  EXPECT_TRUE(IsSatisfied<uint32_t>(6, 5, kWaitValueGeq));
  EXPECT_FALSE(IsSatisfied<uint32_t>(4, 5, kWaitValueGeq));
  const uint32_t last = std::numeric_limits<uint32_t>::max();
  EXPECT_TRUE(IsSatisfied<uint32_t>(0, last, kWaitValueGeq));
  EXPECT_FALSE(IsSatisfied<uint32_t>(last, 0, kWaitValueGeq));
  const uint64_t last64 = std::numeric_limits<uint64_t>::max();
  EXPECT_TRUE(IsSatisfied<uint64_t>(0, last64, kWaitValueGeq));
  EXPECT_FALSE(IsSatisfied<uint64_t>(last64, 0, kWaitValueGeq));
}

TEST(StreamValueTest, EqAndAndNorLookAtBits) {
  EXPECT_TRUE(IsSatisfied<uint32_t>(7, 7, kWaitValueEq));
  EXPECT_FALSE(IsSatisfied<uint32_t>(7, 6, kWaitValueEq));
  EXPECT_TRUE(IsSatisfied<uint32_t>(6, 2, kWaitValueAnd));
  EXPECT_FALSE(IsSatisfied<uint32_t>(6, 1, kWaitValueAnd));
  EXPECT_TRUE(IsSatisfied<uint32_t>(6, 1, kWaitValueNor));
  EXPECT_FALSE(IsSatisfied<uint32_t>(6, ~uint32_t{6}, kWaitValueNor));
}

TEST(StreamValueTest, AWaitIsDescribedByAddressRelationAndValue) {
  EXPECT_EQ(DescribeWait<uint32_t>(0x7f00, 3, kWaitValueGeq),
            "the value at 0x7f00 to be >= 3");
}

}  // namespace
}  // namespace firn::cpu

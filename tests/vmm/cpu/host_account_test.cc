// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/host_account.h"

#include <cstdint>

#include "firn/vmm/cpu/host_memory.h"
#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kHeadroom = cpu::HostAccount::kHeadroomBytes;

class HostAccountTest : public ::testing::Test {
 protected:
  uint64_t available_bytes_ = cpu::kHostReserveBytes + 4 * kGiB;
  uint64_t resident_bytes_ = 0;
  int questions_ = 0;
  cpu::HostAccount account_{[this] {
                              ++questions_;
                              return available_bytes_;
                            },
                            [this] { return resident_bytes_; }};
};

TEST_F(HostAccountTest, TakesNoMoreThanTheHostCanSpare) {
  EXPECT_FALSE(account_.TryTake(4 * kGiB + 1));
  EXPECT_TRUE(account_.TryTake(4 * kGiB));
  EXPECT_FALSE(account_.TryTake(1));
}

TEST_F(HostAccountTest, WhatIsUntouchedIsPromised) {
  EXPECT_TRUE(account_.TryTake(3 * kGiB));
  EXPECT_FALSE(account_.TryTake(2 * kGiB));
  // Touched, it is missing at the host, and no longer promised.
  resident_bytes_ = 3 * kGiB;
  available_bytes_ -= 3 * kGiB;
  EXPECT_FALSE(account_.TryTake(2 * kGiB));
  EXPECT_TRUE(account_.TryTake(kGiB));
}

TEST_F(HostAccountTest, AsksForMuchAtOnce) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(account_.TryTake(kHeadroom / 4));
  EXPECT_EQ(questions_, 1);
  EXPECT_TRUE(account_.TryTake(1));
  EXPECT_EQ(questions_, 2);
}

TEST_F(HostAccountTest, WhatCameBackIsNotTakenAgainWithoutAsking) {
  ASSERT_TRUE(account_.TryTake(4 * kGiB));
  account_.Return(2 * kGiB);
  account_.Return(2 * kGiB);
  // Somebody else took it meanwhile.
  available_bytes_ = cpu::kHostReserveBytes;
  EXPECT_FALSE(account_.TryTake(kHeadroom + 1));
  // So much of it may be taken blindly.
  EXPECT_TRUE(account_.TryTake(kHeadroom));
  EXPECT_FALSE(account_.TryTake(1));
}

}  // namespace
}  // namespace firn::cpu_testing

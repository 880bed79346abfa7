// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/thread_ordinal.h"

#include <cstdint>
#include <thread>

#include "gtest/gtest.h"

namespace firn {
namespace {

uint64_t OrdinalOfANewThread() {
  uint64_t ordinal = 0;
  std::thread([&ordinal] { ordinal = ThisThreadOrdinal(); }).join();
  return ordinal;
}

TEST(ThreadOrdinalTest, StaysTheSameInAThread) {
  const uint64_t ordinal = ThisThreadOrdinal();
  EXPECT_GE(ordinal, 1u);
  EXPECT_EQ(ThisThreadOrdinal(), ordinal);
}

TEST(ThreadOrdinalTest, IsNotUsedAgainWhenItsThreadHasEnded) {
  const uint64_t mine = ThisThreadOrdinal();
  const uint64_t first = OrdinalOfANewThread();
  const uint64_t second = OrdinalOfANewThread();
  EXPECT_NE(first, mine);
  EXPECT_NE(second, mine);
  EXPECT_EQ(second, first + 1);
}

}  // namespace
}  // namespace firn

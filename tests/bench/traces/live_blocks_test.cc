// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/live_blocks.h"

#include "bench/traces/block_ids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

TEST(BlockIdsTest, GivesTheNumberReturnedLastElseTheNextNewOne) {
  BlockIds ids;
  EXPECT_EQ(ids.Take(), 0u);
  EXPECT_EQ(ids.Take(), 1u);
  EXPECT_EQ(ids.Take(), 2u);
  ids.Return(0);
  ids.Return(2);
  EXPECT_EQ(ids.Take(), 2u);
  EXPECT_EQ(ids.Take(), 0u);
  EXPECT_EQ(ids.Take(), 3u);
  ids.Clear();
  EXPECT_EQ(ids.Take(), 0u);
}

TEST(LiveBlocksTest, RemembersBlocksWhileTheyAreLive) {
  LiveBlocks live;
  EXPECT_THAT(live.Add(0x100, 10), IsOkAndHolds(0u));
  EXPECT_THAT(live.Add(0x200, 20), IsOkAndHolds(1u));
  EXPECT_TRUE(live.Contains(0x100));
  const auto removed = live.Remove(0x100);
  ASSERT_TRUE(removed.has_value());
  EXPECT_EQ(removed->id, 0u);
  EXPECT_EQ(removed->bytes, 10u);
  EXPECT_FALSE(live.Contains(0x100));
  EXPECT_FALSE(live.Remove(0x100).has_value());
  EXPECT_THAT(live.Add(0x300, 30), IsOkAndHolds(0u));
}

TEST(LiveBlocksTest, RefusesMoreLiveMemoryThanASumCanHold) {
  LiveBlocks live;
  EXPECT_THAT(
      live.Add(1, ~uint64_t{0}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("beyond 4 EiB")));
  EXPECT_THAT(live.Add(1, LiveBlocks::kMaxLiveBytes), IsOkAndHolds(0u));
  EXPECT_THAT(live.Add(2, 1), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("beyond 4 EiB")));
  ASSERT_TRUE(live.Remove(1).has_value());
  EXPECT_THAT(live.Add(2, 1), IsOkAndHolds(0u));
}

TEST(HandleNumbersTest, NumbersStreamsAsTheyAreMetAndTheDefaultOneZero) {
  HandleNumbers streams;
  EXPECT_EQ(streams.NumberOf(0x7f00), 1u);
  EXPECT_EQ(streams.NumberOf(0), 0u);
  EXPECT_EQ(streams.NumberOf(0x2), 2u);
  EXPECT_EQ(streams.NumberOf(0x7f00), 1u);
}

}  // namespace
}  // namespace firn::bench

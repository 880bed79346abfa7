// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/background_trigger.h"

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

constexpr uint64_t kGranule = uint64_t{2} << 20;

// Events until the next check.
int EventsToCheck(BackgroundTrigger* trigger) {
  int events = 1;
  while (!trigger->Tick()) ++events;
  return events;
}

TEST(BackgroundTriggerTest, ChecksEvery64EventsWhilePassesRecoverSomething) {
  BackgroundTrigger trigger(kGranule);
  EXPECT_EQ(EventsToCheck(&trigger), 64);
  EXPECT_EQ(EventsToCheck(&trigger), 64);
  trigger.PassDone(1);
  EXPECT_EQ(EventsToCheck(&trigger), 64);
}

TEST(BackgroundTriggerTest, BacksOffUpTo2048EventsAfterPassesInVain) {
  BackgroundTrigger trigger(kGranule);
  for (const int expected : {128, 256, 512, 1024, 2048, 2048}) {
    trigger.PassDone(0);
    EXPECT_EQ(EventsToCheck(&trigger), expected);
  }
  trigger.PassDone(3);
  EXPECT_EQ(EventsToCheck(&trigger), 64);
}

TEST(BackgroundTriggerTest, ToleratesThreePercentOrTwoGranules) {
  const BackgroundTrigger trigger(kGranule);
  EXPECT_FALSE(trigger.IsWasteful(2 * kGranule, 0));
  EXPECT_TRUE(trigger.IsWasteful(2 * kGranule + 1, 0));
  const uint64_t live_bytes = 1000 * kGranule;
  EXPECT_FALSE(trigger.IsWasteful(live_bytes, live_bytes));
  EXPECT_FALSE(trigger.IsWasteful(1030 * kGranule, live_bytes));
  EXPECT_TRUE(trigger.IsWasteful(1031 * kGranule, live_bytes));
}

}  // namespace
}  // namespace firn::bench

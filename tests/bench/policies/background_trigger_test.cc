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

TEST(BackgroundTriggerTest, ATimeWithoutEventsCountsAsTheShortestInterval) {
  BackgroundTrigger trigger(kGranule);
  EXPECT_TRUE(trigger.TickIdle());
  trigger.PassDone(0);
  EXPECT_FALSE(trigger.TickIdle());
  EXPECT_EQ(EventsToCheck(&trigger), 64);
}

TEST(BackgroundTriggerTest, WantsWhatExceedsTheToleratedWasteInWholeGranules) {
  const BackgroundTrigger trigger(kGranule);
  const uint64_t live_bytes = 1000 * kGranule;
  EXPECT_EQ(trigger.WantedGranules(live_bytes, live_bytes), 0u);
  EXPECT_EQ(trigger.WantedGranules(1030 * kGranule, live_bytes), 0u);
  EXPECT_EQ(trigger.WantedGranules(1030 * kGranule + 1, live_bytes), 1u);
  EXPECT_EQ(trigger.WantedGranules(1037 * kGranule, live_bytes), 7u);
  EXPECT_EQ(trigger.WantedGranules(5 * kGranule, 0), 3u);
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

TEST(BackgroundTriggerTest, ToleratesThePercentageItIsGivenOrTwoGranules) {
  const uint64_t live_bytes = 1000 * kGranule;
  const BackgroundTrigger exact(kGranule, 3.5);
  EXPECT_FALSE(exact.IsWasteful(1034 * kGranule, live_bytes));
  EXPECT_FALSE(exact.IsWasteful(1035 * kGranule - 1024, live_bytes));
  EXPECT_TRUE(exact.IsWasteful(1035 * kGranule + 1024, live_bytes));
  EXPECT_FALSE(exact.IsWasteful(2 * kGranule, 0));
  const BackgroundTrigger strict(kGranule, 0);
  EXPECT_FALSE(strict.IsWasteful(1002 * kGranule, live_bytes));
  EXPECT_TRUE(strict.IsWasteful(1003 * kGranule, live_bytes));
  const BackgroundTrigger lenient(kGranule, 100);
  EXPECT_FALSE(lenient.IsWasteful(1999 * kGranule, live_bytes));
  EXPECT_TRUE(lenient.IsWasteful(2001 * kGranule, live_bytes));
}

}  // namespace
}  // namespace firn::bench

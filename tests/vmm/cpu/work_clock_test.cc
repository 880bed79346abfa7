// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/work_clock.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

using cpu::Join;
using cpu::Knows;
using cpu::KnowsAll;
using cpu::Restrict;
using cpu::SeenWork;
using cpu::WorkClock;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

WorkClock Clock(SeenWork seen) {
  return std::make_shared<const SeenWork>(std::move(seen));
}

TEST(WorkClockTest, NothingIsKnownByNoClockButNoWork) {
  EXPECT_TRUE(Knows(nullptr, 1, 0));
  EXPECT_FALSE(Knows(nullptr, 1, 1));
  EXPECT_TRUE(KnowsAll(nullptr, nullptr));
  EXPECT_FALSE(KnowsAll(nullptr, Clock({{1, 1}})));
}

TEST(WorkClockTest, AClockKnowsAllUpToAPosition) {
  const WorkClock clock = Clock({{1, 5}});
  EXPECT_TRUE(Knows(clock, 1, 5));
  EXPECT_FALSE(Knows(clock, 1, 6));
  EXPECT_FALSE(Knows(clock, 2, 1));
}

TEST(WorkClockTest, JoiningTakesTheLaterPositionOfEach) {
  EXPECT_THAT(*Join(Clock({{1, 5}, {2, 1}}), Clock({{2, 3}, {3, 4}})),
              UnorderedElementsAre(Pair(1, 5), Pair(2, 3), Pair(3, 4)));
  EXPECT_THAT(*Join(Clock({{1, 5}}), 1, 7), UnorderedElementsAre(Pair(1, 7)));
  EXPECT_THAT(*Join(nullptr, 1, 7), UnorderedElementsAre(Pair(1, 7)));
}

TEST(WorkClockTest, WhatIsKnownAlreadyIsNotCopied) {
  const WorkClock more = Clock({{1, 5}, {2, 1}});
  const WorkClock less = Clock({{1, 4}});
  EXPECT_EQ(Join(more, less), more);
  EXPECT_EQ(Join(less, more), more);
  EXPECT_EQ(Join(more, nullptr), more);
  EXPECT_EQ(Join(nullptr, more), more);
  EXPECT_EQ(Join(more, 1, 5), more);
  EXPECT_EQ(Restrict(more, [](uint64_t) { return true; }), more);
  EXPECT_EQ(Restrict(nullptr, [](uint64_t) { return false; }), nullptr);
}

TEST(WorkClockTest, JoiningLeavesTheOldSnapshotsAsTheyWere) {
  const WorkClock a = Clock({{1, 5}});
  const WorkClock b = Clock({{2, 1}});
  Join(a, b);
  EXPECT_THAT(*a, UnorderedElementsAre(Pair(1, 5)));
  EXPECT_THAT(*b, UnorderedElementsAre(Pair(2, 1)));
}

TEST(WorkClockTest, RestrictingKeepsTheStreamsAskedFor) {
  EXPECT_THAT(
      *Restrict(Clock({{1, 5}, {2, 1}}), [](uint64_t id) { return id == 2; }),
      UnorderedElementsAre(Pair(2, 1)));
}

}  // namespace
}  // namespace firn::cpu_testing

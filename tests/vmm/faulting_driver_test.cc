// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/faulting_driver.h"

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/all_driver_calls.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::Not;
using ::testing::SizeIs;

// What the base answers in these tests: a call that shows this got through.
constexpr DriverResult kReached = DriverResult::kNotReady;
constexpr DriverResult kFault = DriverResult::kOutOfMemory;
constexpr DriverResult kOtherFault = DriverResult::kMapFailed;

class FaultingDriverTest : public ::testing::Test {
 protected:
  FaultingDriverTest() { base_.result = kReached; }

  DriverResult Map() { return driver_.MemMap(0, 0, 0, 0, 0); }
  DriverResult Unmap() { return driver_.MemUnmap(0, 0); }

  NotingDriver base_;
  FaultingDriver driver_{&base_};
};

TEST_F(FaultingDriverTest, EveryCallCanBeFailedByItsKindAndIsThenNotMade) {
  uint64_t reached = 0;
  for (const NamedDriverCall& call : AllDriverCalls()) {
    SCOPED_TRACE(DriverCallName(call.kind));
    driver_.Reset();
    driver_.FailNthOf(call.kind, 0, kFault);
    EXPECT_EQ(call.make(driver_), kFault);
    EXPECT_EQ(base_.calls.size(), reached);
    EXPECT_EQ(call.make(driver_), kReached);
    EXPECT_EQ(base_.calls.size(), ++reached);
    EXPECT_EQ(base_.calls.back().call, call.kind);
    EXPECT_EQ(driver_.calls(), 2u);
    EXPECT_EQ(driver_.failures(), 1u);
  }
}

TEST_F(FaultingDriverTest, WithoutOrdersAllCallsPassAndAreCounted) {
  EXPECT_EQ(Map(), kReached);
  EXPECT_EQ(Unmap(), kReached);
  EXPECT_EQ(driver_.calls(), 2u);
  EXPECT_EQ(driver_.failures(), 0u);
}

TEST_F(FaultingDriverTest, FailNthFailsOneCallCountedFromNow) {
  Map();
  driver_.FailNth(2, kFault);
  EXPECT_EQ(Map(), kReached);
  EXPECT_EQ(Unmap(), kReached);
  EXPECT_EQ(Map(), kFault);
  EXPECT_EQ(Map(), kReached);
  EXPECT_EQ(driver_.calls(), 5u);
  EXPECT_EQ(driver_.failures(), 1u);
  EXPECT_EQ(base_.calls.size(), 4u);
}

TEST_F(FaultingDriverTest, FailFromFailsAllLaterCalls) {
  driver_.FailFrom(1, kFault);
  EXPECT_EQ(Map(), kReached);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Unmap(), kFault);
  EXPECT_EQ(driver_.failures(), 10u);
  EXPECT_EQ(base_.calls.size(), 1u);
}

TEST_F(FaultingDriverTest, FailNthOfCountsCallsOfItsKindOnly) {
  driver_.FailNthOf(DriverCall::kMemMap, 1, kFault);
  EXPECT_EQ(Unmap(), kReached);
  EXPECT_EQ(Map(), kReached);
  EXPECT_EQ(Unmap(), kReached);
  EXPECT_EQ(Map(), kFault);
  EXPECT_EQ(Map(), kReached);
}

TEST_F(FaultingDriverTest, SeveralOrdersHoldAtOnceAndTheOldestDecides) {
  driver_.FailNthOf(DriverCall::kMemMap, 0, kOtherFault);
  driver_.FailNth(0, kFault);
  driver_.FailNth(2, kFault);
  std::vector<DriverResult> results;
  for (int i = 0; i < 4; ++i) results.push_back(Map());
  EXPECT_THAT(results, ElementsAre(kOtherFault, kReached, kFault, kReached));
}

// Which of `count` calls fail.
std::vector<size_t> FailuresAmong(FaultingDriver& driver, size_t count) {
  std::vector<size_t> failures;
  for (size_t i = 0; i < count; ++i) {
    if (driver.MemMap(0, 0, 0, 0, 0) == kFault) failures.push_back(i);
  }
  return failures;
}

TEST_F(FaultingDriverTest, RandomFailuresAreAsFrequentAsAsked) {
  driver_.FailRandomly(0.1, 1, kFault);
  EXPECT_THAT(FailuresAmong(driver_, 10000), SizeIs(AllOf(Gt(850), Lt(1150))));
  EXPECT_EQ(driver_.calls(), 10000u);
  EXPECT_EQ(driver_.failures() + base_.calls.size(), 10000u);
}

TEST_F(FaultingDriverTest, TheSeedDecidesWhichCallsFail) {
  driver_.FailRandomly(0.5, 7, kFault);
  const std::vector<size_t> first = FailuresAmong(driver_, 100);
  driver_.Reset();
  driver_.FailRandomly(0.5, 7, kFault);
  EXPECT_EQ(FailuresAmong(driver_, 100), first);
  driver_.Reset();
  driver_.FailRandomly(0.5, 8, kFault);
  EXPECT_NE(FailuresAmong(driver_, 100), first);
}

TEST_F(FaultingDriverTest, AProbabilityMayBeNothingOrCertainty) {
  driver_.FailRandomly(0, 3, kFault);
  EXPECT_THAT(FailuresAmong(driver_, 1000), IsEmpty());
  driver_.FailRandomly(1, 3, kFault);
  EXPECT_THAT(FailuresAmong(driver_, 1000), SizeIs(1000));
}

TEST_F(FaultingDriverTest, RandomFailuresOfAKindLeaveOthersAlone) {
  driver_.FailRandomlyOf(DriverCall::kMemMap, 0.5, 5, kFault);
  const std::vector<size_t> alone = FailuresAmong(driver_, 100);
  EXPECT_THAT(alone, Not(IsEmpty()));
  driver_.Reset();
  driver_.FailRandomlyOf(DriverCall::kMemMap, 0.5, 5, kFault);
  std::vector<size_t> among_others;
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(Unmap(), kReached);
    if (Map() == kFault) among_others.push_back(i);
  }
  EXPECT_EQ(among_others, alone);
}

TEST_F(FaultingDriverTest, ResetForgetsOrdersAndCounts) {
  driver_.FailFrom(0, kFault);
  EXPECT_EQ(Map(), kFault);
  driver_.Reset();
  EXPECT_EQ(driver_.calls(), 0u);
  EXPECT_EQ(driver_.failures(), 0u);
  EXPECT_EQ(Map(), kReached);
}

TEST_F(FaultingDriverTest, OfCallsBySeveralThreadsExactlyTheOrderedOnesFail) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kCallsPerThread = 1000;
  // A faulting driver whose calls all fail makes no use of its own base.
  FaultingDriver base(nullptr);
  base.FailFrom(0, kReached);
  FaultingDriver driver(&base);
  for (uint64_t n = 0; n < 10; ++n) driver.FailNth(n * 100, kFault);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&driver] {
      for (uint64_t call = 0; call < kCallsPerThread; ++call) {
        driver.MemMap(0, 0, 0, 0, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver.calls(), kThreads * kCallsPerThread);
  EXPECT_EQ(driver.failures(), 10u);
  EXPECT_EQ(base.calls(), kThreads * kCallsPerThread - 10);
}

}  // namespace
}  // namespace firn::testing

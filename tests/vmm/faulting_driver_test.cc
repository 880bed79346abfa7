// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/faulting_driver.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "firn/vmm/driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;

// What the base answers in these tests: a call that shows this got through.
constexpr DriverResult kReached = DriverResult::kNotReady;
constexpr DriverResult kFault = DriverResult::kOutOfMemory;
constexpr DriverResult kOtherFault = DriverResult::kMapFailed;

// A faulting driver whose calls all fail never uses its own base: it serves as
// the base here, and counts what reaches it.
class FaultingDriverTest : public ::testing::Test {
 protected:
  FaultingDriverTest() { base_.FailFrom(0, kReached); }

  DriverResult Map() { return driver_.MemMap(0, 0, 0, 0, 0); }
  DriverResult Unmap() { return driver_.MemUnmap(0, 0); }

  FaultingDriver base_{nullptr};
  FaultingDriver driver_{&base_};
};

std::vector<std::pair<DriverCall, std::function<DriverResult(Driver&)>>>
AllCalls() {
  return {
      {DriverCall::kMemGetAllocationGranularity,
       [](Driver& d) {
         return d.MemGetAllocationGranularity(nullptr, nullptr,
                                              GranularityKind::kMinimum);
       }},
      {DriverCall::kMemAddressReserve,
       [](Driver& d) { return d.MemAddressReserve(nullptr, 0, 0, 0, 0); }},
      {DriverCall::kMemAddressFree,
       [](Driver& d) { return d.MemAddressFree(0, 0); }},
      {DriverCall::kMemCreate,
       [](Driver& d) { return d.MemCreate(nullptr, 0, nullptr, 0); }},
      {DriverCall::kMemRelease, [](Driver& d) { return d.MemRelease(0); }},
      {DriverCall::kMemMap, [](Driver& d) { return d.MemMap(0, 0, 0, 0, 0); }},
      {DriverCall::kMemUnmap, [](Driver& d) { return d.MemUnmap(0, 0); }},
      {DriverCall::kMemSetAccess,
       [](Driver& d) { return d.MemSetAccess(0, 0, nullptr, 0); }},
      {DriverCall::kMemGetAccess,
       [](Driver& d) { return d.MemGetAccess(nullptr, nullptr, 0); }},
      {DriverCall::kMemRetainAllocationHandle,
       [](Driver& d) { return d.MemRetainAllocationHandle(nullptr, 0); }},
      {DriverCall::kMemGetInfo,
       [](Driver& d) { return d.MemGetInfo(nullptr, nullptr); }},
      {DriverCall::kMemcpyDtoDAsync,
       [](Driver& d) { return d.MemcpyDtoDAsync(0, 0, 0, nullptr); }},
      {DriverCall::kMemcpyHtoDAsync,
       [](Driver& d) { return d.MemcpyHtoDAsync(0, nullptr, 0, nullptr); }},
      {DriverCall::kMemcpyDtoHAsync,
       [](Driver& d) { return d.MemcpyDtoHAsync(nullptr, 0, 0, nullptr); }},
      {DriverCall::kMemsetD8Async,
       [](Driver& d) { return d.MemsetD8Async(0, 0, 0, nullptr); }},
      {DriverCall::kStreamCreate,
       [](Driver& d) { return d.StreamCreate(nullptr, 0); }},
      {DriverCall::kStreamDestroy,
       [](Driver& d) { return d.StreamDestroy(nullptr); }},
      {DriverCall::kStreamQuery,
       [](Driver& d) { return d.StreamQuery(nullptr); }},
      {DriverCall::kStreamSynchronize,
       [](Driver& d) { return d.StreamSynchronize(nullptr); }},
      {DriverCall::kStreamGetId,
       [](Driver& d) { return d.StreamGetId(nullptr, nullptr); }},
      {DriverCall::kStreamIsCapturing,
       [](Driver& d) { return d.StreamIsCapturing(nullptr, nullptr); }},
      {DriverCall::kStreamWaitEvent,
       [](Driver& d) { return d.StreamWaitEvent(nullptr, nullptr, 0); }},
      {DriverCall::kEventCreate,
       [](Driver& d) { return d.EventCreate(nullptr, 0); }},
      {DriverCall::kEventDestroy,
       [](Driver& d) { return d.EventDestroy(nullptr); }},
      {DriverCall::kEventRecord,
       [](Driver& d) { return d.EventRecord(nullptr, nullptr); }},
      {DriverCall::kEventQuery,
       [](Driver& d) { return d.EventQuery(nullptr); }},
      {DriverCall::kEventSynchronize,
       [](Driver& d) { return d.EventSynchronize(nullptr); }},
      {DriverCall::kCtxSynchronize,
       [](Driver& d) { return d.CtxSynchronize(); }},
  };
}

TEST_F(FaultingDriverTest, EveryCallCanBeFailedByItsKindAndIsThenNotMade) {
  uint64_t reached = 0;
  for (const auto& [kind, call] : AllCalls()) {
    driver_.Reset();
    driver_.FailNthOf(kind, 0, kFault);
    EXPECT_EQ(call(driver_), kFault) << static_cast<int>(kind);
    EXPECT_EQ(base_.calls(), reached) << static_cast<int>(kind);
    EXPECT_EQ(call(driver_), kReached) << static_cast<int>(kind);
    EXPECT_EQ(base_.calls(), ++reached) << static_cast<int>(kind);
    EXPECT_EQ(driver_.calls(), 2u);
    EXPECT_EQ(driver_.failures(), 1u);
  }
}

// The base fails the call of that very kind only.
TEST_F(FaultingDriverTest, EveryCallIsPassedToTheCallOfTheSameName) {
  for (const auto& [kind, call] : AllCalls()) {
    base_.Reset();
    base_.FailNthOf(kind, 0, kOtherFault);
    EXPECT_EQ(call(driver_), kOtherFault) << static_cast<int>(kind);
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
  EXPECT_EQ(base_.calls(), 4u);
}

TEST_F(FaultingDriverTest, FailFromFailsAllLaterCalls) {
  driver_.FailFrom(1, kFault);
  EXPECT_EQ(Map(), kReached);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Unmap(), kFault);
  EXPECT_EQ(driver_.failures(), 10u);
  EXPECT_EQ(base_.calls(), 1u);
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
  for (uint64_t n = 0; n < 10; ++n) driver_.FailNth(n * 100, kFault);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      for (uint64_t call = 0; call < kCallsPerThread; ++call) Map();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver_.calls(), kThreads * kCallsPerThread);
  EXPECT_EQ(driver_.failures(), 10u);
  EXPECT_EQ(base_.calls(), kThreads * kCallsPerThread - 10);
}

}  // namespace
}  // namespace firn::testing

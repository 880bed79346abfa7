// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/counting_driver.h"

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "firn/vmm/cost_model.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_clock.h"
#include "firn/vmm/driver_wrapper.h"
#include "gtest/gtest.h"
#include "tests/vmm/all_driver_calls.h"

namespace firn::testing {
namespace {

constexpr size_t kGranuleBytes = size_t{2} << 20;

// Answers every call with `result`, from any thread.
class AnsweringDriver : public DriverWrapper {
 public:
  AnsweringDriver() : DriverWrapper(nullptr) {}

  DriverResult result = DriverResult::kSuccess;

 protected:
  DriverResult Around(const DriverCallArgs&,
                      absl::FunctionRef<DriverResult()>) override {
    return result;
  }
};

// Each counted call once, over `granules` granules where it takes a range.
void CallEach(Driver& driver, DriverResult expected, size_t granules) {
  const size_t bytes = granules * kGranuleBytes;
  const AllocationProp prop;
  const AccessDesc desc;
  DevicePtr address = 0;
  PhysicalHandle handle = 0;
  EXPECT_EQ(driver.MemAddressReserve(&address, bytes, 0, 0, 0), expected);
  EXPECT_EQ(driver.MemCreate(&handle, kGranuleBytes, &prop, 0), expected);
  EXPECT_EQ(driver.MemMap(address, kGranuleBytes, 0, handle, 0), expected);
  EXPECT_EQ(driver.MemSetAccess(address, bytes, &desc, 1), expected);
  EXPECT_EQ(driver.MemcpyDtoDAsync(address, address, bytes, nullptr), expected);
  EXPECT_EQ(driver.MemUnmap(address, bytes), expected);
  EXPECT_EQ(driver.MemRelease(handle), expected);
}

TEST(CountingDriverTest, SuccessfulCallsAreCountedByName) {
  AnsweringDriver base;
  CountingDriver driver(&base, CostModel(CostProfile::kNone), kGranuleBytes);
  const AccessDesc desc;
  CallEach(driver, DriverResult::kSuccess, 1);
  CallEach(driver, DriverResult::kSuccess, 1);
  EXPECT_EQ(driver.MemSetAccess(0, kGranuleBytes, &desc, 1),
            DriverResult::kSuccess);
  EXPECT_EQ(driver.MemUnmap(0, kGranuleBytes), DriverResult::kSuccess);
  EXPECT_EQ(driver.MemUnmap(0, kGranuleBytes), DriverResult::kSuccess);
  const DriverCalls calls = driver.calls();
  EXPECT_EQ(calls.reserve, 2u);
  EXPECT_EQ(calls.create, 2u);
  EXPECT_EQ(calls.map, 2u);
  EXPECT_EQ(calls.set_access, 3u);
  EXPECT_EQ(calls.copy, 2u);
  EXPECT_EQ(calls.unmap, 4u);
  EXPECT_EQ(calls.release, 2u);
  EXPECT_EQ(driver.driver_us(), 0);
  EXPECT_EQ(driver.copy_us(), 0);
}

TEST(CountingDriverTest, FailedCallsAreNeitherCountedNorCharged) {
  AnsweringDriver base;
  base.result = DriverResult::kOutOfMemory;
  CountingDriver driver(&base, CostModel(CostProfile::kFast), kGranuleBytes);
  CallEach(driver, DriverResult::kOutOfMemory, 1);
  const DriverCalls calls = driver.calls();
  EXPECT_EQ(calls.reserve + calls.create + calls.map + calls.set_access +
                calls.copy + calls.unmap + calls.release,
            0u);
  EXPECT_EQ(driver.driver_us(), 0);
  EXPECT_EQ(driver.create_us(), 0);
  EXPECT_EQ(driver.copy_us(), 0);
  EXPECT_EQ(driver.clock().busy_us(), 0);
}

TEST(CountingDriverTest, EveryKindOfCallIsCountedByItsResult) {
  AnsweringDriver base;
  CountingDriver driver(&base, CostModel(CostProfile::kNone), kGranuleBytes);
  uint64_t made = 0;
  for (const NamedDriverCall& call : AllDriverCalls()) {
    SCOPED_TRACE(DriverCallName(call.kind));
    base.result = DriverResult::kSuccess;
    for (uint64_t i = 0; i <= made; ++i) call.make(driver);
    base.result = DriverResult::kNotReady;
    call.make(driver);
    EXPECT_EQ(driver.count(call.kind), ++made);
    EXPECT_EQ(driver.failed(call.kind), 1u);
  }
}

TEST(CountingDriverTest, OnlyCallsThatManageMemoryTakeTheDriverLock) {
  AnsweringDriver base;
  CountingDriver driver(&base, CostModel(CostProfile::kFast), kGranuleBytes);
  for (const NamedDriverCall& call : AllDriverCalls()) {
    const double before_us = driver.clock().busy_us();
    call.make(driver);
    const bool costs = driver.clock().busy_us() > before_us;
    const bool manages_memory = call.kind == DriverCall::kMemAddressReserve ||
                                call.kind == DriverCall::kMemCreate ||
                                call.kind == DriverCall::kMemMap ||
                                call.kind == DriverCall::kMemSetAccess ||
                                call.kind == DriverCall::kMemUnmap ||
                                call.kind == DriverCall::kMemRelease ||
                                call.kind == DriverCall::kMemAlloc ||
                                call.kind == DriverCall::kMemFree;
    EXPECT_EQ(costs, manages_memory) << DriverCallName(call.kind);
  }
  EXPECT_DOUBLE_EQ(driver.clock().busy_us(), driver.driver_us());
  EXPECT_GT(driver.copy_us(), 0);
}

TEST(CountingDriverTest, APartOfAGranuleIsChargedAsAWholeHandle) {
  AnsweringDriver base;
  CountingDriver driver(&base, CostModel(CostProfile::kFast), kGranuleBytes);
  driver.MemUnmap(0, 1);
  EXPECT_DOUBLE_EQ(driver.driver_us(), 11.5);
  driver.MemUnmap(0, kGranuleBytes + 1);
  EXPECT_DOUBLE_EQ(driver.driver_us(), 3 * 11.5);
}

TEST(CountingDriverTest, DriversWithOneClockQueueBehindEachOther) {
  AnsweringDriver base;
  DriverClock clock;
  CountingDriver first(&base, CostModel(CostProfile::kFast), kGranuleBytes,
                       &clock);
  CountingDriver second(&base, CostModel(CostProfile::kFast), kGranuleBytes,
                        &clock);
  EXPECT_EQ(&first.clock(), &clock);
  first.MemUnmap(0, 10 * kGranuleBytes);
  std::thread([&] { second.MemMap(0, kGranuleBytes, 0, 7, 0); }).join();
  EXPECT_DOUBLE_EQ(clock.waited_us(), 115);
  EXPECT_DOUBLE_EQ(clock.busy_us(), 116);
  EXPECT_DOUBLE_EQ(second.driver_us(), 1);
}

TEST(CountingDriverTest, RangesAreChargedByTheHandlesThatTheyCover) {
  AnsweringDriver base;
  CountingDriver driver(&base, CostModel(CostProfile::kFast), kGranuleBytes);
  CallEach(driver, DriverResult::kSuccess, 10);
  // Reserve 9, create 8, map 1, set-access 20 + 10, unmap 115, release 8.
  EXPECT_DOUBLE_EQ(driver.driver_us(), 9 + 8 + 1 + 30 + 115 + 8);
  EXPECT_DOUBLE_EQ(driver.create_us(), 8);
  // A launch and ten granules at 1.4e6 bytes a microsecond.
  EXPECT_NEAR(driver.copy_us(), 5 + 14.9797, 1e-3);
}

TEST(CountingDriverTest, MemoryInOneCallIsChargedAsTheCallsThatItStandsFor) {
  AnsweringDriver base;
  CountingDriver driver(&base, CostModel(CostProfile::kFast), kGranuleBytes);
  DevicePtr address = 0;
  driver.MemAlloc(&address, 10 * kGranuleBytes);
  EXPECT_DOUBLE_EQ(driver.driver_us(), 9 + 8 + 1 + 21);
  EXPECT_DOUBLE_EQ(driver.create_us(), 8);
  driver.MemFree(address);
  EXPECT_DOUBLE_EQ(driver.driver_us(), 9 + 8 + 1 + 21 + 11.5 + 8);
  EXPECT_EQ(driver.calls().create, 0u);
  EXPECT_EQ(driver.calls().unmap, 0u);
}

TEST(CountingDriverTest, CallsOfSeveralThreadsAreAllCounted) {
  AnsweringDriver base;
  CountingDriver driver(&base, CostModel(CostProfile::kFast), kGranuleBytes);
  constexpr int kThreads = 4;
  constexpr int kCallsPerThread = 1000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&driver] {
      for (int call = 0; call < kCallsPerThread; ++call) {
        driver.MemMap(0, kGranuleBytes, 0, 7, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver.calls().map, uint64_t{kThreads * kCallsPerThread});
  EXPECT_DOUBLE_EQ(driver.driver_us(), kThreads * kCallsPerThread);
  EXPECT_DOUBLE_EQ(driver.clock().busy_us(), driver.driver_us());
  EXPECT_GT(driver.clock().waited_us(), 0);
}

}  // namespace
}  // namespace firn::testing

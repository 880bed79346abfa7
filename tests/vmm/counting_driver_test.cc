// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/counting_driver.h"

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "firn/vmm/cost_model.h"
#include "firn/vmm/driver.h"
#include "gtest/gtest.h"

namespace firn::testing {
namespace {

constexpr size_t kGranuleBytes = size_t{2} << 20;

// Answers every counted call with `result`; has no other calls.
class AnsweringDriver : public DriverWrapper {
 public:
  AnsweringDriver() : DriverWrapper(nullptr) {}

  DriverResult MemAddressReserve(DevicePtr* address, size_t, size_t, DevicePtr,
                                 uint64_t) override {
    *address = 0x1000;
    return result;
  }
  DriverResult MemCreate(PhysicalHandle* handle, size_t, const AllocationProp*,
                         uint64_t) override {
    *handle = 7;
    return result;
  }
  DriverResult MemRelease(PhysicalHandle) override { return result; }
  DriverResult MemMap(DevicePtr, size_t, size_t, PhysicalHandle,
                      uint64_t) override {
    return result;
  }
  DriverResult MemUnmap(DevicePtr, size_t) override { return result; }
  DriverResult MemSetAccess(DevicePtr, size_t, const AccessDesc*,
                            size_t) override {
    return result;
  }
  DriverResult MemcpyDtoDAsync(DevicePtr, DevicePtr, size_t,
                               StreamHandle) override {
    return result;
  }

  DriverResult result = DriverResult::kSuccess;
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
}

}  // namespace
}  // namespace firn::testing

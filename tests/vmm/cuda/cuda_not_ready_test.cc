// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A CudaDriver whose driver answers NOT_READY.

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "firn/vmm/cuda/call_rules.h"
#include "firn/vmm/driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cuda/cuda_driver_fixture.h"
#include "tests/vmm/cuda/passed_calls.h"

namespace firn::testing {
namespace {

using ::testing::SizeIs;

constexpr DriverResult kNotReady = DriverResult::kNotReady;
using CudaNotReadyTest = CudaDriverTest;

// The functions that are called again.
const std::set<std::string>& CalledAgain() {
  static const auto* const names =
      new std::set<std::string>{"cuMemAddressReserve",
                                "cuMemAddressFree",
                                "cuMemCreate",
                                "cuMemRelease",
                                "cuMemMap",
                                "cuMemUnmap",
                                "cuMemSetAccess",
                                "cuMemRetainAllocationHandle",
                                "cuMemExportToShareableHandle",
                                "cuMemImportFromShareableHandle",
                                "cuMemAlloc_v2",
                                "cuMemFree_v2"};
  return *names;
}

TEST_F(CudaNotReadyTest, CallsThatManageMemoryAreRepeatedUntilTheyAreDone) {
  const std::unique_ptr<Driver> driver = Open(1);
  ASSERT_NE(driver, nullptr);
  for (const PassedCall& call : ContextCalls()) {
    state().calls.clear();
    state().next_results[NameOf(call)] = {static_cast<int32_t>(kNotReady)};
    if (CalledAgain().count(NameOf(call)) > 0) {
      EXPECT_EQ(call.make(*driver), DriverResult::kSuccess) << call.recorded;
      EXPECT_THAT(state().calls, SizeIs(2)) << call.recorded;
    } else {
      EXPECT_EQ(call.make(*driver), kNotReady) << call.recorded;
      EXPECT_THAT(state().calls, SizeIs(1)) << call.recorded;
    }
  }
}

TEST_F(CudaNotReadyTest, WhatComesAfterNotReadyIsTheResult) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  state().next_results["cuMemMap"] = {
      static_cast<int32_t>(kNotReady),
      static_cast<int32_t>(DriverResult::kOutOfMemory)};
  EXPECT_EQ(driver->MemMap(kAddress, kBytes, 0, 77, 0),
            DriverResult::kOutOfMemory);
  state().next_results["cuMemMap"] = {
      static_cast<int32_t>(kNotReady),
      static_cast<int32_t>(DriverResult::kIllegalAddress)};
  EXPECT_EQ(driver->MemMap(kAddress, kBytes, 0, 77, 0),
            DriverResult::kIllegalAddress);
  EXPECT_EQ(driver->loss(), "cuMemMap: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

TEST_F(CudaNotReadyTest, ADriverThatIsNeverReadyIsAskedOnlySoOften) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  state().results = {{"cuMemSetAccess", static_cast<int32_t>(kNotReady)}};
  const AccessDesc desc;
  EXPECT_EQ(driver->MemSetAccess(kAddress, kBytes, &desc, 1), kNotReady);
  // A loaded machine may stretch the pauses, and then there are fewer tries.
  EXPECT_GE(state().calls.size(), 2u);
  EXPECT_LE(state().calls.size(), static_cast<size_t>(kNotReadyTries));
}

TEST(NotReadyRetryTest, AResultOtherThanNotReadyEndsItAtOnce) {
  int calls = 0;
  EXPECT_EQ(RetryWhileNotReady([&] {
              ++calls;
              return DriverResult::kOutOfMemory;
            }),
            DriverResult::kOutOfMemory);
  EXPECT_EQ(calls, 1);
}

TEST(NotReadyRetryTest, ThePausesFitIntoTheBound) {
  std::chrono::microseconds pauses{0};
  std::chrono::microseconds pause = kFirstNotReadyPause;
  for (int i = 1; i < kNotReadyTries; ++i, pause *= 2) pauses += pause;
  EXPECT_LE(pauses, kNotReadyBound);
}

// Calls that take long themselves must not multiply.
TEST(NotReadyRetryTest, SlowCallsAreTriedAgainOnlyWithinTheBound) {
  int calls = 0;
  EXPECT_EQ(RetryWhileNotReady([&] {
              ++calls;
              std::this_thread::sleep_for(kNotReadyBound);
              return kNotReady;
            }),
            kNotReady);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace firn::testing

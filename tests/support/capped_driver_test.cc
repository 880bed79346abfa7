// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/capped_driver.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "firn/vmm/allocation_props.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/test_device.h"

namespace firn::testing {
namespace {

using ::testing::IsEmpty;

constexpr DriverResult kSuccess = DriverResult::kSuccess;

class CappedDriverTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_THAT(ledger_.CleanUp(), IsEmpty()); }

  DriverResult Create(PhysicalHandle* handle) {
    const AllocationProp prop = MovableProp(0);
    return capped_.MemCreate(handle, bytes_, &prop, 0);
  }

  std::unique_ptr<DeviceSet> devices_ = TestDevices();
  const uint64_t bytes_ = devices_->granule_bytes;
  LedgerDriver ledger_{devices_->drivers[0].get()};
  FaultingDriver faults_{&ledger_};
  CappedDriver capped_{&faults_, 2};
};

TEST_F(CappedDriverTest, OneHandleTooManyIsOutOfMemory) {
  PhysicalHandle handle = 0;
  ASSERT_EQ(Create(&handle), kSuccess);
  ASSERT_EQ(Create(&handle), kSuccess);
  PhysicalHandle none = 0;
  EXPECT_EQ(Create(&none), DriverResult::kOutOfMemory);
  EXPECT_EQ(capped_.handles(), 2u);
  EXPECT_EQ(capped_.MemRelease(handle), kSuccess);
  EXPECT_EQ(Create(&handle), kSuccess);
}

TEST_F(CappedDriverTest, TheCapCanBeMoved) {
  PhysicalHandle handle = 0;
  capped_.set_most_handles(1);
  ASSERT_EQ(Create(&handle), kSuccess);
  EXPECT_EQ(Create(&handle), DriverResult::kOutOfMemory);
  capped_.set_most_handles(3);
  EXPECT_EQ(Create(&handle), kSuccess);
  EXPECT_EQ(Create(&handle), kSuccess);
  EXPECT_EQ(Create(&handle), DriverResult::kOutOfMemory);
}

TEST_F(CappedDriverTest, AHandleIsThereUntilItsLastReferenceGoes) {
  capped_.set_most_handles(1);
  PhysicalHandle handle = 0;
  ASSERT_EQ(Create(&handle), kSuccess);
  DevicePtr address = 0;
  ASSERT_EQ(capped_.MemAddressReserve(&address, bytes_, bytes_, 0, 0),
            kSuccess);
  ASSERT_EQ(capped_.MemMap(address, bytes_, 0, handle, 0), kSuccess);
  PhysicalHandle again = 0;
  ASSERT_EQ(capped_.MemRetainAllocationHandle(&again, address), kSuccess);
  ASSERT_EQ(capped_.MemRelease(handle), kSuccess);
  PhysicalHandle other = 0;
  EXPECT_EQ(Create(&other), DriverResult::kOutOfMemory);
  ASSERT_EQ(capped_.MemRelease(again), kSuccess);
  EXPECT_EQ(Create(&other), kSuccess);
}

TEST_F(CappedDriverTest, HostMemoryDoesNotCount) {
  int32_t has_host_memory = 0;
  ASSERT_EQ(
      capped_.DeviceGetAttribute(&has_host_memory,
                                 DeviceAttribute::kHostVirtualMemoryManagement),
      kSuccess);
  if (has_host_memory == 0) GTEST_SKIP() << "the driver maps no host memory";
  capped_.set_most_handles(0);
  const AllocationProp prop = HostProp({LocationType::kHost, 0});
  PhysicalHandle handle = 0;
  EXPECT_EQ(capped_.MemCreate(&handle, bytes_, &prop, 0), kSuccess);
  EXPECT_EQ(capped_.handles(), 0u);
  EXPECT_EQ(capped_.MemRelease(handle), kSuccess);
}

TEST_F(CappedDriverTest, CallsThatFailChangeNothing) {
  PhysicalHandle handle = 0;
  faults_.FailNth(0, DriverResult::kUnknown);
  EXPECT_EQ(Create(&handle), DriverResult::kUnknown);
  EXPECT_EQ(capped_.handles(), 0u);
  ASSERT_EQ(Create(&handle), kSuccess);
  faults_.FailNth(0, DriverResult::kUnknown);
  EXPECT_EQ(capped_.MemRelease(handle), DriverResult::kUnknown);
  EXPECT_EQ(capped_.handles(), 1u);
}

TEST_F(CappedDriverTest, ThreadsTogetherDoNotExceedTheCap) {
  constexpr int kThreads = 4;
  capped_.set_most_handles(kThreads);
  std::atomic<int> created{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 3; ++call) {
        PhysicalHandle handle = 0;
        if (Create(&handle) == kSuccess) ++created;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(created, kThreads);
  EXPECT_EQ(capped_.handles(), uint64_t{kThreads});
}

}  // namespace
}  // namespace firn::testing

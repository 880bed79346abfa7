// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/device_wait.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/way.h"

namespace firn::testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;

// Tells when a wait for the device has begun.
class WatchedWaits : public DriverWrapper {
 public:
  explicit WatchedWaits(Driver* base) : DriverWrapper(base) {}

  DriverResult CtxSynchronize() override {
    ++begun_;
    return DriverWrapper::CtxSynchronize();
  }
  int begun() const { return begun_; }
  void AwaitBegun(int count) const {
    while (begun_ < count) absl::SleepFor(absl::Microseconds(100));
  }

 private:
  std::atomic<int> begun_{0};
};

class DeviceWaitTest : public ::testing::Test {
 protected:
  void SetUp() override { devices_ = TestDevices(); }
  Driver* device(size_t ordinal = 0) {
    return devices_->drivers[ordinal].get();
  }
  size_t device_count() const { return devices_->drivers.size(); }
  static absl::Time Soon() { return absl::Now() + absl::Seconds(60); }
  static uint64_t RequestFrom(DeviceWait& wait) {
    const absl::StatusOr<uint64_t> request = wait.Request();
    EXPECT_THAT(request, IsOk());
    return request.value_or(0);
  }

 private:
  std::unique_ptr<DeviceSet> devices_;
};

TEST_F(DeviceWaitTest, WithoutARequestThereIsNoWait) {
  WatchedWaits driver(device());
  { const DeviceWait wait(&driver); }
  EXPECT_EQ(driver.begun(), 0);
}

TEST_F(DeviceWaitTest, AWaitIsOverWhenTheWorkIs) {
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  DeviceWait wait(device());
  const uint64_t request = RequestFrom(wait);
  EXPECT_THAT(wait.WaitFor(request, absl::Now() + absl::Milliseconds(5)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(wait.WaitFor(request, absl::InfinitePast()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  held.Release();
  FIRN_EXPECT_OK(wait.WaitFor(request, absl::InfiniteFuture()));
  FIRN_EXPECT_OK(wait.WaitFor(request, absl::InfinitePast()));
}

TEST_F(DeviceWaitTest, ARequestDuringAWaitGetsAnotherThatBeginsLater) {
  WatchedWaits driver(device());
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  DeviceWait wait(&driver);
  const uint64_t first = RequestFrom(wait);
  driver.AwaitBegun(1);
  // Both are served by the second wait.
  const uint64_t second = RequestFrom(wait);
  const uint64_t third = RequestFrom(wait);
  held.Release();
  FIRN_EXPECT_OK(wait.WaitFor(third, Soon()));
  FIRN_EXPECT_OK(wait.WaitFor(second, Soon()));
  FIRN_EXPECT_OK(wait.WaitFor(first, Soon()));
  EXPECT_EQ(driver.begun(), 2);
}

TEST_F(DeviceWaitTest, AWithdrawnRequestNeverBegins) {
  WatchedWaits driver(device());
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  DeviceWait wait(&driver);
  const uint64_t first = RequestFrom(wait);
  driver.AwaitBegun(1);
  const uint64_t second = RequestFrom(wait);
  EXPECT_FALSE(wait.Withdraw(first)) << "it has begun";
  EXPECT_TRUE(wait.Withdraw(second));
  held.Release();
  FIRN_EXPECT_OK(wait.WaitFor(first, Soon()));
  // Asked for again, it is one that begins now.
  const uint64_t third = RequestFrom(wait);
  FIRN_EXPECT_OK(wait.WaitFor(third, Soon()));
  EXPECT_EQ(driver.begun(), 2);
}

TEST_F(DeviceWaitTest, AnErrorIsReportedToAllRequestsThatItCovers) {
  FaultingDriver faults(device());
  WatchedWaits driver(&faults);
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  DeviceWait wait(&driver);
  const uint64_t first = RequestFrom(wait);
  driver.AwaitBegun(1);
  // That it has begun is known before it is counted by the faults.
  while (faults.calls() < 2) absl::SleepFor(absl::Microseconds(100));
  faults.FailNthOf(DriverCall::kCtxSynchronize, 0, DriverResult::kUnknown);
  const uint64_t second = RequestFrom(wait);
  const uint64_t third = RequestFrom(wait);
  held.Release();
  FIRN_EXPECT_OK(wait.WaitFor(first, Soon()));
  EXPECT_THAT(wait.WaitFor(second, Soon()),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(wait.WaitFor(third, Soon()),
              StatusIs(absl::StatusCode::kInternal));
  FIRN_EXPECT_OK(wait.WaitFor(RequestFrom(wait), Soon()));
  // A later wait that went well was one for these as well.
  FIRN_EXPECT_OK(wait.WaitFor(second, Soon()));
}

TEST_F(DeviceWaitTest, EveryCallMayFailOnce) {
  // The wait itself, and the thread's mode before and after it.
  for (uint64_t n = 0; n < 3; ++n) {
    FaultingDriver faults(device());
    DeviceWait wait(&faults);
    faults.FailNth(n, DriverResult::kUnknown);
    const absl::Status status = wait.WaitFor(RequestFrom(wait), Soon());
    // A mode that is not set back is set back again.
    EXPECT_EQ(status.ok(), n == 2) << n;
    FIRN_EXPECT_OK(wait.WaitFor(RequestFrom(wait), Soon()));
  }
}

TEST_F(DeviceWaitTest, ALostDeviceIsReported) {
  FaultingDriver faults(device());
  faults.FailFrom(0, DriverResult::kIllegalAddress);
  DeviceWait wait(&faults);
  EXPECT_THAT(wait.WaitFor(RequestFrom(wait), Soon()),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(DeviceWaitTest, OnlyWhatWasAskedForCanBeWaitedFor) {
  DeviceWait wait(device());
  EXPECT_THAT(wait.WaitFor(1, Soon()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(DeviceWaitTest, ACaptureElsewhereGoesOn) {
  if (device_count() < 2) GTEST_SKIP() << "there is one device";
  StreamHandle stream = nullptr;
  ASSERT_EQ(device(1)->StreamCreate(&stream, kStreamNonBlocking), kOk);
  ASSERT_EQ(device(1)->StreamBeginCapture(stream, CaptureMode::kGlobal), kOk);
  {
    DeviceWait wait(device(0));
    FIRN_EXPECT_OK(wait.WaitFor(RequestFrom(wait), Soon()));
  }
  GraphHandle graph = nullptr;
  EXPECT_EQ(device(1)->StreamEndCapture(stream, &graph), kOk);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(device(1)->GraphDestroy(graph), kOk);
  EXPECT_EQ(device(1)->StreamDestroy(stream), kOk);
}

TEST_F(DeviceWaitTest, ManyThreadsAskAtOnce) {
  DeviceWait wait(device());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&wait] {
      for (int round = 0; round < 200; ++round) {
        FIRN_ASSERT_OK(wait.WaitFor(RequestFrom(wait), Soon()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace firn::testing

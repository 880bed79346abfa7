// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/relaxed_capture.h"

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/way.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

constexpr DriverResult kOk = DriverResult::kSuccess;

class RelaxedCaptureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    devices_ = TestDevices();
    ASSERT_EQ(driver().StreamCreate(&stream_, kStreamNonBlocking), kOk);
  }
  void TearDown() override {
    if (stream_ != nullptr) {
      EXPECT_EQ(driver().StreamDestroy(stream_), kOk);
    }
  }

  Driver& driver() { return *devices_->drivers[0]; }
  StreamHandle stream() const { return stream_; }

  // What the thread's mode is, found by giving it another one and back.
  CaptureMode ThreadMode() {
    CaptureMode mode = CaptureMode::kGlobal;
    EXPECT_EQ(driver().ThreadExchangeStreamCaptureMode(&mode), kOk);
    CaptureMode found = mode;
    EXPECT_EQ(driver().ThreadExchangeStreamCaptureMode(&mode), kOk);
    return found;
  }
  void SetThreadMode(CaptureMode mode) {
    EXPECT_EQ(driver().ThreadExchangeStreamCaptureMode(&mode), kOk);
  }
  // Calls that manage memory, from beginning to end; the first refusal.
  DriverResult UseMemory() {
    const AllocationProp prop = MovableProp(0);
    const size_t bytes = devices_->granule_bytes;
    PhysicalHandle handle = 0;
    DriverResult result = driver().MemCreate(&handle, bytes, &prop, 0);
    if (result != kOk) return result;
    DevicePtr address = 0;
    EXPECT_EQ(driver().MemAddressReserve(&address, bytes, 0, 0, 0), kOk);
    EXPECT_EQ(driver().MemMap(address, bytes, 0, handle, 0), kOk);
    const AccessDesc desc = {prop.location, AccessFlags::kReadWrite};
    EXPECT_EQ(driver().MemSetAccess(address, bytes, &desc, 1), kOk);
    EXPECT_EQ(driver().MemUnmap(address, bytes), kOk);
    EXPECT_EQ(driver().MemRelease(handle), kOk);
    EXPECT_EQ(driver().MemAddressFree(address, bytes), kOk);
    return kOk;
  }
  // Ends the capture and destroys what it gave.
  DriverResult EndCapture() {
    GraphHandle graph = nullptr;
    const DriverResult result = driver().StreamEndCapture(stream_, &graph);
    if (graph != nullptr) {
      EXPECT_EQ(driver().GraphDestroy(graph), kOk);
    }
    return result;
  }

 private:
  std::unique_ptr<DeviceSet> devices_;
  StreamHandle stream_ = nullptr;
};

void OnAnotherThread(const std::function<void()>& body) {
  std::thread(body).join();
}

// Why the scope is needed. No GPU says whether it is so there.
TEST_F(RelaxedCaptureTest, WithoutAScopeMemoryCallsBreakAGlobalCapture) {
  if (TestWay() == Way::kGpu) GTEST_SKIP() << "not known of a GPU";
  ASSERT_EQ(driver().StreamBeginCapture(stream(), CaptureMode::kGlobal), kOk);
  OnAnotherThread(
      [&] { EXPECT_EQ(UseMemory(), DriverResult::kStreamCaptureUnsupported); });
  EXPECT_EQ(EndCapture(), DriverResult::kStreamCaptureInvalidated);
}

TEST_F(RelaxedCaptureTest, WithinAScopeMemoryCallsLeaveAGlobalCaptureWhole) {
  ASSERT_EQ(driver().StreamBeginCapture(stream(), CaptureMode::kGlobal), kOk);
  OnAnotherThread([&] {
    const ScopedRelaxedCapture scope(&driver());
    FIRN_EXPECT_OK(scope.status());
    EXPECT_EQ(UseMemory(), kOk);
  });
  CaptureStatus status = CaptureStatus::kNone;
  EXPECT_EQ(driver().StreamIsCapturing(stream(), &status), kOk);
  EXPECT_EQ(status, CaptureStatus::kActive);
  EXPECT_EQ(EndCapture(), kOk);
}

TEST_F(RelaxedCaptureTest, TheCapturingThreadItselfMayManageMemoryInAScope) {
  ASSERT_EQ(driver().StreamBeginCapture(stream(), CaptureMode::kThreadLocal),
            kOk);
  {
    const ScopedRelaxedCapture scope(&driver());
    EXPECT_EQ(UseMemory(), kOk);
  }
  EXPECT_EQ(EndCapture(), kOk);
}

TEST_F(RelaxedCaptureTest, TheThreadGetsItsModeBack) {
  SetThreadMode(CaptureMode::kThreadLocal);
  {
    const ScopedRelaxedCapture scope(&driver());
    EXPECT_EQ(scope.result(), kOk);
    EXPECT_EQ(ThreadMode(), CaptureMode::kRelaxed);
    {
      const ScopedRelaxedCapture inner(&driver());
      EXPECT_EQ(ThreadMode(), CaptureMode::kRelaxed);
    }
    EXPECT_EQ(ThreadMode(), CaptureMode::kRelaxed);
  }
  EXPECT_EQ(ThreadMode(), CaptureMode::kThreadLocal);
  SetThreadMode(CaptureMode::kGlobal);
}

TEST_F(RelaxedCaptureTest, OtherThreadsKeepTheirModes) {
  const ScopedRelaxedCapture scope(&driver());
  OnAnotherThread([&] { EXPECT_EQ(ThreadMode(), CaptureMode::kGlobal); });
}

TEST_F(RelaxedCaptureTest, ARefusedScopeSaysSoAndChangesNothing) {
  FaultingDriver faults(&driver());
  faults.FailNth(0, DriverResult::kNotPermitted);
  {
    const ScopedRelaxedCapture scope(&faults);
    EXPECT_EQ(scope.result(), DriverResult::kNotPermitted);
    EXPECT_THAT(scope.status(),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         HasSubstr("cuThreadExchangeStreamCaptureMode: ")));
    EXPECT_EQ(ThreadMode(), CaptureMode::kGlobal);
  }
  EXPECT_EQ(faults.calls(), 1u);
  EXPECT_EQ(ThreadMode(), CaptureMode::kGlobal);
}

TEST_F(RelaxedCaptureTest, ARefusalAtTheEndIsNotTheLastWord) {
  FaultingDriver faults(&driver());
  faults.FailNth(1, DriverResult::kNotReady);
  { const ScopedRelaxedCapture scope(&faults); }
  EXPECT_EQ(faults.calls(), 3u);
  EXPECT_EQ(ThreadMode(), CaptureMode::kGlobal);

  // But the scope does end.
  faults.Reset();
  faults.FailFrom(1, DriverResult::kNotReady);
  { const ScopedRelaxedCapture scope(&faults); }
  EXPECT_EQ(ThreadMode(), CaptureMode::kRelaxed);
  SetThreadMode(CaptureMode::kGlobal);
}

}  // namespace
}  // namespace firn::testing

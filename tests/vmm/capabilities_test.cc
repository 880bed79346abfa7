// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What is found out about the device at hand, whatever it is, and what becomes
// of the device when that fails.

#include "firn/vmm/capabilities.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/way.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr DriverResult kOk = DriverResult::kSuccess;

// All reasons that there are.
std::vector<std::string> Reasons(const Capabilities& found) {
  std::vector<std::string> reasons = {found.virtual_memory.reason,
                                      found.stream_ids.reason,
                                      found.stream_values_64.reason,
                                      found.posix_file_descriptors.reason,
                                      found.rdma.reason,
                                      found.fabric_handles.reason,
                                      found.host_spill.reason,
                                      found.relaxed_capture.reason,
                                      found.peer_access.reason,
                                      found.movable_granularity.reason,
                                      found.host_granularity.reason,
                                      found.memory.reason};
  for (const Peer& peer : found.peers) reasons.push_back(peer.access.reason);
  return reasons;
}

class CapabilitiesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    devices_ = TestDevices();
    ledger_ = std::make_unique<LedgerDriver>(devices_->drivers[0].get());
  }

  DeviceSet& devices() { return *devices_; }
  // Of the device, with a ledger of what is there.
  LedgerDriver& driver() { return *ledger_; }

  CaptureMode ThreadMode() {
    CaptureMode mode = CaptureMode::kGlobal;
    EXPECT_EQ(driver().ThreadExchangeStreamCaptureMode(&mode), kOk);
    CaptureMode found = mode;
    EXPECT_EQ(driver().ThreadExchangeStreamCaptureMode(&mode), kOk);
    return found;
  }

 private:
  std::unique_ptr<DeviceSet> devices_;
  std::unique_ptr<LedgerDriver> ledger_;
};

TEST_F(CapabilitiesTest, AUsableDeviceHasVirtualMemoryAndAReasonForEverything) {
  const Capabilities found = ProbeCapabilities(&driver());
  EXPECT_TRUE(found.virtual_memory.available) << found.virtual_memory.reason;
  EXPECT_EQ(found.virtual_memory.reason,
            "attribute 102 of the device is 1, and a trial succeeded");
  EXPECT_TRUE(found.relaxed_capture.available);
  EXPECT_THAT(Reasons(found), Each(Not(IsEmpty())));
  EXPECT_EQ(found.movable_granularity.minimum_bytes, devices().granule_bytes);
  EXPECT_GE(found.movable_granularity.recommended_bytes,
            found.movable_granularity.minimum_bytes);
  EXPECT_GT(found.memory.total_bytes, 0u);
  EXPECT_LE(found.memory.free_bytes, found.memory.total_bytes);
  if (found.host_spill.available) {
    EXPECT_NE(found.host_location.type, LocationType::kInvalid);
    EXPECT_GT(found.host_granularity.minimum_bytes, 0u);
  } else {
    EXPECT_EQ(found.host_location.type, LocationType::kInvalid);
    EXPECT_EQ(found.host_granularity.minimum_bytes, 0u);
  }
  int32_t count = 0;
  ASSERT_EQ(driver().DeviceGetCount(&count), kOk);
  EXPECT_EQ(found.peers.size(), static_cast<size_t>(count) - 1);
}

TEST_F(CapabilitiesTest, NothingIsLeftBehind) {
  ProbeCapabilities(&driver());
  EXPECT_TRUE(driver().empty()) << driver().Describe();
  EXPECT_EQ(ThreadMode(), CaptureMode::kGlobal);
  EXPECT_EQ(driver().CtxSynchronize(), kOk);
}

TEST_F(CapabilitiesTest, ProbingTwiceFindsTheSame) {
  const Capabilities once = ProbeCapabilities(&driver());
  const Capabilities again = ProbeCapabilities(&driver());
  EXPECT_EQ(Reasons(once), Reasons(again));
}

TEST_F(CapabilitiesTest, TheCapturesOfOtherThreadsStayWhole) {
  StreamHandle stream = nullptr;
  ASSERT_EQ(driver().StreamCreate(&stream, kStreamNonBlocking), kOk);
  ASSERT_EQ(driver().StreamBeginCapture(stream, CaptureMode::kGlobal), kOk);
  std::thread([&] {
    EXPECT_TRUE(ProbeCapabilities(&driver()).virtual_memory.available);
  }).join();
  GraphHandle graph = nullptr;
  EXPECT_EQ(driver().StreamEndCapture(stream, &graph), kOk);
  EXPECT_EQ(driver().GraphDestroy(graph), kOk);
  EXPECT_EQ(driver().StreamDestroy(stream), kOk);
}

// Whichever call fails: nothing is left, the failure is a reason, and the
// device is as good as before.
TEST_F(CapabilitiesTest, EachCallMayFail) {
  FaultingDriver faults(&driver());
  ProbeCapabilities(&faults);
  const uint64_t calls = faults.calls();
  ASSERT_GT(calls, 20u);
  for (uint64_t n = 0; n < calls; ++n) {
    SCOPED_TRACE(absl::StrCat("call ", n, " fails"));
    faults.Reset();
    // No driver gives this one.
    faults.FailNth(n, static_cast<DriverResult>(911));
    const Capabilities found = ProbeCapabilities(&faults);
    EXPECT_EQ(faults.failures(), 1u);
    EXPECT_TRUE(driver().empty()) << driver().Describe();
    EXPECT_EQ(ThreadMode(), CaptureMode::kGlobal);
    EXPECT_THAT(Reasons(found), Each(Not(IsEmpty())));
    // But for the last one, which gives the thread its mode back.
    if (n + 1 < calls) {
      EXPECT_THAT(Reasons(found), Contains(HasSubstr("(911)")));
    }
  }
  EXPECT_TRUE(ProbeCapabilities(&driver()).virtual_memory.available);
}

// As when the device is lost.
TEST_F(CapabilitiesTest, AllCallsFromAnyOneOnMayFail) {
  FaultingDriver faults(&driver());
  ProbeCapabilities(&faults);
  const uint64_t calls = faults.calls();
  for (uint64_t n = 0; n < calls; ++n) {
    SCOPED_TRACE(absl::StrCat("calls from ", n, " on fail"));
    faults.Reset();
    faults.FailFrom(n, DriverResult::kIllegalAddress);
    const Capabilities found = ProbeCapabilities(&faults);
    EXPECT_THAT(Reasons(found), Each(Not(IsEmpty())));
    if (n + 1 < calls) {
      EXPECT_THAT(Reasons(found),
                  Contains(AllOf(HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
                                 HasSubstr("the device is lost"))));
    }
    // What these drivers could not give back.
    driver().CleanUp();
    CaptureMode mode = CaptureMode::kGlobal;
    EXPECT_EQ(driver().ThreadExchangeStreamCaptureMode(&mode), kOk);
  }
}

}  // namespace
}  // namespace firn::testing

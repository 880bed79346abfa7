// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A CudaDriver whose device is lost.

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "firn/vmm/cuda/cuda_driver.h"
#include "firn/vmm/driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cuda/cuda_driver_fixture.h"
#include "tests/vmm/cuda/passed_calls.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr DriverResult kIllegal = DriverResult::kIllegalAddress;

class CudaLossTest : public CudaDriverTest {
 protected:
  // The next call of this function returns this.
  void Next(const std::string& function, DriverResult result) {
    state().next_results[function].push_back(static_cast<int32_t>(result));
  }
  // A driver that has just lost its device in cuStreamSynchronize.
  std::unique_ptr<Driver> OpenAndLose(int device_ordinal = 0,
                                      DriverResult result = kIllegal) {
    std::unique_ptr<Driver> driver = Open(device_ordinal);
    if (driver == nullptr) return nullptr;
    Next("cuStreamSynchronize", result);
    EXPECT_EQ(driver->StreamSynchronize(FakeStream()), result);
    state().calls.clear();
    return driver;
  }
};

// The functions that a lost device's driver still calls.
const std::set<std::string>& StillCalled() {
  static const auto* const names = new std::set<std::string>{
      "cuMemAddressFree",    "cuMemRelease",       "cuMemUnmap",
      "cuMemFree_v2",        "cuStreamDestroy_v2", "cuEventDestroy_v2",
      "cuGraphExecDestroy",  "cuGraphDestroy",     "cuCtxSynchronize",
      "cuStreamSynchronize", "cuEventSynchronize"};
  return *names;
}

TEST_F(CudaLossTest, NothingIsLostAtFirst) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  EXPECT_EQ(driver->loss(), "");
  Next("cuMemCreate", DriverResult::kOutOfMemory);
  PhysicalHandle handle = 0;
  EXPECT_EQ(driver->MemCreate(&handle, kBytes, &PinnedProp(), 0),
            DriverResult::kOutOfMemory);
  EXPECT_EQ(driver->loss(), "");
}

TEST_F(CudaLossTest, TheLossNamesTheCallAndTheError) {
  const std::unique_ptr<Driver> driver = OpenAndLose();
  ASSERT_NE(driver, nullptr);
  EXPECT_EQ(driver->loss(),
            "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

TEST_F(CudaLossTest, EveryCallCanBeTheOneThatTellsOfTheLoss) {
  for (const PassedCall& call : ContextCalls()) {
    const std::unique_ptr<Driver> driver = Open(1);
    ASSERT_NE(driver, nullptr);
    Next(NameOf(call), DriverResult::kLaunchFailed);
    EXPECT_EQ(call.make(*driver), DriverResult::kLaunchFailed) << call.recorded;
    // The record has the exported name: the suffix is the library's affair.
    const std::string exported = NameOf(call);
    const std::string name = exported.substr(0, exported.find("_v"));
    EXPECT_EQ(driver->loss(),
              absl::StrCat(name, ": CUDA_ERROR_LAUNCH_FAILED (719)"));
  }
}

TEST_F(CudaLossTest, EveryLaterCallReturnsTheFirstLossWhateverTheDriverSays) {
  const std::unique_ptr<Driver> driver = OpenAndLose(1);
  ASSERT_NE(driver, nullptr);
  for (const PassedCall& call : AllPassedCalls()) {
    if (NameOf(call) == "cuThreadExchangeStreamCaptureMode") continue;
    state().results = {
        {NameOf(call), static_cast<int32_t>(DriverResult::kLaunchFailed)}};
    EXPECT_EQ(call.make(*driver), kIllegal) << call.recorded;
  }
  int32_t can_access = 0;
  EXPECT_EQ(driver->DeviceCanAccessPeer(&can_access, 0), kIllegal);
  EXPECT_EQ(driver->loss(),
            "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

TEST_F(CudaLossTest, OnlyWhatWaitsOrGivesBackIsStillCalled) {
  const std::unique_ptr<Driver> driver = OpenAndLose(1);
  ASSERT_NE(driver, nullptr);
  for (const PassedCall& call : AllPassedCalls()) {
    if (NameOf(call) == "cuThreadExchangeStreamCaptureMode") continue;
    state().calls.clear();
    call.make(*driver);
    if (StillCalled().count(NameOf(call)) > 0) {
      EXPECT_THAT(state().calls,
                  ElementsAre(absl::StrCat(call.recorded, " @0xc1")));
    } else {
      EXPECT_THAT(state().calls, IsEmpty()) << call.recorded;
    }
    EXPECT_THAT(state().context_stack, IsEmpty());
  }
}

// Its context may be beyond being made current.
TEST_F(CudaLossTest, WhatIsGivenBackNeedsNoContext) {
  const std::unique_ptr<Driver> driver = OpenAndLose();
  ASSERT_NE(driver, nullptr);
  state().results = {{"cuCtxPushCurrent_v2", static_cast<int32_t>(kIllegal)}};
  EXPECT_EQ(driver->MemUnmap(kAddress, kBytes), kIllegal);
  EXPECT_EQ(driver->CtxSynchronize(), kIllegal);
  EXPECT_THAT(state().calls,
              ElementsAre("cuCtxPushCurrent_v2(0xc0)", "cuMemUnmap(4096, 2048)",
                          "cuCtxPushCurrent_v2(0xc0)"));
}

TEST_F(CudaLossTest, TheThreadsCaptureModeIsNotTheDevicesAffair) {
  const std::unique_ptr<Driver> driver = OpenAndLose();
  ASSERT_NE(driver, nullptr);
  CaptureMode mode = CaptureMode::kRelaxed;
  EXPECT_EQ(driver->ThreadExchangeStreamCaptureMode(&mode),
            DriverResult::kSuccess);
  EXPECT_EQ(mode, CaptureMode::kThreadLocal);
  EXPECT_THAT(state().calls,
              ElementsAre("cuThreadExchangeStreamCaptureMode(2)"));
}

TEST_F(CudaLossTest, ADriverThatHasShutDownIsCalledNoMore) {
  const std::unique_ptr<Driver> driver =
      OpenAndLose(1, DriverResult::kDeinitialized);
  ASSERT_NE(driver, nullptr);
  for (const PassedCall& call : ContextCalls()) {
    EXPECT_EQ(call.make(*driver), DriverResult::kDeinitialized);
  }
  EXPECT_THAT(state().calls, IsEmpty());
}

TEST_F(CudaLossTest, ACallThatTheDriverLacksIsRefusedForTheLossToo) {
  state().missing_symbol = "cuGraphInstantiateWithFlags";
  const std::unique_ptr<Driver> driver = OpenAndLose();
  ASSERT_NE(driver, nullptr);
  GraphExecHandle exec = nullptr;
  EXPECT_EQ(driver->GraphInstantiate(&exec, FakeGraph(), 0), kIllegal);
}

TEST_F(CudaLossTest, ALossIsSharedByAllDriversOfTheDevice) {
  const std::unique_ptr<Driver> first = Open();
  const std::unique_ptr<Driver> other_device = Open(1);
  const std::unique_ptr<Driver> second = OpenAndLose();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  ASSERT_NE(other_device, nullptr);
  EXPECT_EQ(first->loss(), second->loss());
  EXPECT_EQ(first->StreamQuery(FakeStream()), kIllegal);
  EXPECT_THAT(state().calls, IsEmpty());
  // One that comes late is told, too.
  const std::unique_ptr<Driver> third = Open();
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(third->loss(), second->loss());
  // Contexts are lost one by one.
  EXPECT_EQ(other_device->loss(), "");
  EXPECT_EQ(other_device->StreamQuery(FakeStream()), DriverResult::kSuccess);
}

TEST_F(CudaLossTest, AfterTheLastDriverOfTheDeviceTheNextOneAsksAgain) {
  OpenAndLose().reset();
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  EXPECT_EQ(driver->loss(), "");
  EXPECT_EQ(driver->StreamQuery(FakeStream()), DriverResult::kSuccess);
}

// It belongs to no context, least of all to this one.
TEST_F(CudaLossTest, AnErrorInTheAnswerToAQuestionLosesNothing) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  for (const PassedCall& call : ContextFreeCalls()) {
    Next(NameOf(call), kIllegal);
    EXPECT_EQ(call.make(*driver), kIllegal);
  }
  EXPECT_EQ(driver->loss(), "");
}

TEST_F(CudaLossTest, AContextThatCannotBeMadeCurrentForTheLossTellsOfIt) {
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  state().results = {{"cuCtxPushCurrent_v2", static_cast<int32_t>(kIllegal)}};
  EXPECT_EQ(driver->MemRelease(77), kIllegal);
  EXPECT_EQ(driver->loss(), "cuMemRelease: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

}  // namespace
}  // namespace firn::testing

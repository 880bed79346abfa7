// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/cuda_device.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "firn/vmm/driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/cuda/cuda_driver_fixture.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using CudaDeviceTest = CudaDriverTest;

TEST_F(CudaDeviceTest, TheIdentityIsThatOfTheChosenDevice) {
  state().driver_version = 12040;
  const std::unique_ptr<Driver> driver = Open(1);
  ASSERT_NE(driver, nullptr);
  const DriverIdentity identity = driver->identity();
  EXPECT_EQ(identity.backend, "cuda");
  EXPECT_EQ(identity.device_name, "Fake GPU 1");
  EXPECT_EQ(identity.device_ordinal, 1);
  EXPECT_EQ(identity.driver_version, 12040);
}

TEST_F(CudaDeviceTest, OpeningAsksForVirtualMemoryManagement) {
  EXPECT_THAT(OpenStatus(1), IsOk());
  EXPECT_THAT(
      state().calls,
      ElementsAre("cuDriverGetVersion()", "cuInit(0)", "cuDeviceGetCount()",
                  "cuDeviceGet(1)", "cuDeviceGetName(256, 1)",
                  "cuDeviceGetAttribute(102, 1)", "cuDevicePrimaryCtxRetain(1)",
                  "cuDevicePrimaryCtxRelease_v2(1)"));
}

TEST_F(CudaDeviceTest, ThePrimaryContextIsHeldAsLongAsTheDriver) {
  std::unique_ptr<Driver> first = Open();
  std::unique_ptr<Driver> second = Open();
  EXPECT_EQ(state().primary_context_references, 2);
  first.reset();
  EXPECT_EQ(state().primary_context_references, 1);
  second.reset();
  EXPECT_EQ(state().primary_context_references, 0);
  EXPECT_THAT(state().context_stack, IsEmpty());
}

TEST_F(CudaDeviceTest, ADriverThatHasShutDownIsToleratedAtTheEnd) {
  std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  state().results = {{"cuDevicePrimaryCtxRelease_v2",
                      static_cast<int32_t>(DriverResult::kDeinitialized)}};
  driver.reset();
  EXPECT_THAT(state().calls, ElementsAre("cuDevicePrimaryCtxRelease_v2(0)"));
}

TEST_F(CudaDeviceTest, NoDeviceIsSaidSo) {
  state().results = {{"cuInit", static_cast<int32_t>(DriverResult::kNoDevice)}};
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kUnavailable,
                                     Eq("the CUDA driver finds no device")));
  state().results.clear();
  state().device_count = 0;
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kUnavailable,
                                     Eq("the CUDA driver finds no device")));
}

TEST_F(CudaDeviceTest, AStubThatShowsOnlyAtInitialisationIsCalledAStub) {
  state().results = {
      {"cuInit", static_cast<int32_t>(DriverResult::kStubLibrary)}};
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kUnavailable,
                                     HasSubstr("toolkit's stub")));
}

TEST_F(CudaDeviceTest, AWrongOrdinalNamesHowManyDevicesThereAre) {
  EXPECT_THAT(OpenStatus(2),
              StatusIs(absl::StatusCode::kUnavailable,
                       Eq("there is no CUDA device 2: the driver has 2 "
                          "devices, counted from 0")));
  EXPECT_THAT(OpenStatus(-1), StatusIs(absl::StatusCode::kUnavailable,
                                       HasSubstr("no CUDA device -1")));
  state().device_count = 1;
  EXPECT_THAT(OpenStatus(1),
              StatusIs(absl::StatusCode::kUnavailable,
                       Eq("there is no CUDA device 1: the driver has 1 "
                          "device, counted from 0")));
}

TEST_F(CudaDeviceTest, ADeviceWithoutVirtualMemoryManagementIsNamed) {
  state().attributes = 0;
  EXPECT_THAT(
      OpenStatus(1),
      StatusIs(absl::StatusCode::kUnimplemented,
               Eq("no memory can be moved on CUDA device 1 (Fake GPU 1): it "
                  "does not support virtual memory management in this system "
                  "(attribute 102 of the device is 0, and 1 is needed)")));
  EXPECT_EQ(state().primary_context_references, 0);
}

TEST_F(CudaDeviceTest, WhoCanDoWithoutVirtualMemoryManagementGetsTheDevice) {
  state().attributes = 0;
  EXPECT_THAT(OpenStatus(1, /*needs_virtual_memory=*/false), IsOk());
  EXPECT_THAT(state().calls, Not(Contains("cuDeviceGetAttribute(102, 1)")));
  // Not through a driver that lacks more than that.
  state().driver_version = 10020;
  EXPECT_THAT(OpenStatus(1, /*needs_virtual_memory=*/false),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("too old")));
}

TEST_F(CudaDeviceTest,
       ADeviceThatDoesNotSayWhetherItSupportsItIsTakenAtItsWord) {
  state().results = {{"cuDeviceGetAttribute",
                      static_cast<int32_t>(DriverResult::kInvalidValue)}};
  EXPECT_THAT(OpenStatus(0),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("attribute 102 of the device is not known: "
                                 "CUDA_ERROR_INVALID_VALUE, and 1 is")));
}

TEST_F(CudaDeviceTest, AnOldDriverIsNoReasonToCallTheDeviceAbsent) {
  state().driver_version = 10020;
  EXPECT_THAT(
      OpenStatus(1),
      StatusIs(absl::StatusCode::kUnimplemented,
               AllOf(StartsWith("no memory can be moved on CUDA device 1 (Fake "
                                "GPU 1): the CUDA driver "),
                     EndsWith(" is too old: it supports CUDA 10.2 and firn "
                              "needs 11.0"))));
  EXPECT_EQ(state().primary_context_references, 0);
}

TEST_F(CudaDeviceTest, AMissingFunctionIsNoReasonToCallTheDeviceAbsent) {
  state().missing_symbol = "cuMemMap";
  EXPECT_THAT(OpenStatus(),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("CUDA device 0 (Fake GPU 0)"),
                             EndsWith("lacks cuMemMap (of CUDA 10.2)"))));
}

// Whatever else is wrong, without a device there is none that lacks anything.
TEST_F(CudaDeviceTest, WithoutADeviceAnOldDriverIsUnavailable) {
  state().driver_version = 10020;
  state().device_count = 0;
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kUnavailable,
                                     Eq("the CUDA driver finds no device")));
  state().device_count = 1;
  EXPECT_THAT(OpenStatus(1), StatusIs(absl::StatusCode::kUnavailable,
                                      HasSubstr("no CUDA device 1")));
}

TEST_F(CudaDeviceTest, DevicesAreCountedWithoutBeingUsed) {
  EXPECT_THAT(Count(), IsOkAndHolds(2));
  EXPECT_THAT(state().calls, ElementsAre("cuDriverGetVersion()", "cuInit(0)",
                                         "cuDeviceGetCount()"));
  // On which memory could not be moved.
  state().driver_version = 10020;
  EXPECT_THAT(Count(), IsOkAndHolds(2));
}

TEST_F(CudaDeviceTest, DevicesThatCannotBeCountedAreUnavailable) {
  state().device_count = 0;
  EXPECT_THAT(Count().status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       Eq("the CUDA driver finds no device")));
  state().results = {
      {"cuDeviceGetCount", static_cast<int32_t>(DriverResult::kUnknown)}};
  EXPECT_THAT(Count().status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       Eq("cuDeviceGetCount: the fake's error text (999)")));
  EXPECT_THAT(CountCudaDevices("/nowhere/libcuda.so.1").status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("/nowhere/libcuda.so.1")));
}

TEST_F(CudaDeviceTest, ADeviceThatIsCountedAndNotGivenIsUnavailable) {
  state().results = {
      {"cuDeviceGet", static_cast<int32_t>(DriverResult::kInvalidDevice)}};
  EXPECT_THAT(OpenStatus(),
              StatusIs(absl::StatusCode::kUnavailable,
                       Eq("cuDeviceGet: the fake's error text (101)")));
}

TEST_F(CudaDeviceTest, ADeviceWithoutANameIsUsedAllTheSame) {
  state().results = {
      {"cuDeviceGetName", static_cast<int32_t>(DriverResult::kNotSupported)}};
  const std::unique_ptr<Driver> driver = Open();
  ASSERT_NE(driver, nullptr);
  EXPECT_EQ(driver->identity().device_name, "unnamed CUDA device");
}

TEST_F(CudaDeviceTest, OtherFailuresComeWithTheDriversOwnWords) {
  state().results = {{"cuInit", 803}};
  EXPECT_THAT(OpenStatus(),
              StatusIs(absl::StatusCode::kUnavailable,
                       Eq("cuInit: the fake's error text (803)")));
  state().results = {{"cuDevicePrimaryCtxRetain",
                      static_cast<int32_t>(DriverResult::kOutOfMemory)}};
  state().missing_symbol = "cuGetErrorString";
  EXPECT_THAT(OpenStatus(), StatusIs(absl::StatusCode::kUnavailable,
                                     Eq("cuDevicePrimaryCtxRetain: "
                                        "CUDA_ERROR_OUT_OF_MEMORY (2)")));
}

}  // namespace
}  // namespace firn::testing

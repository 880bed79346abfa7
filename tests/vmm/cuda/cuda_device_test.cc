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
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  state().supports_vmm = false;
  EXPECT_THAT(
      OpenStatus(1),
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr("CUDA device 1 (Fake GPU 1)"),
                     HasSubstr("does not support virtual memory management"))));
  EXPECT_EQ(state().primary_context_references, 0);
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

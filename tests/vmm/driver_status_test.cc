// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/driver_status.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "firn/vmm/driver_types.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::StartsWith;

// A result of a real driver that vmm/driver_types.h does not list.
constexpr DriverResult kUnlisted = static_cast<DriverResult>(209);

TEST(DriverStatusTest, EveryResultHasItsCudaName) {
  const std::vector<std::pair<DriverResult, std::string>> names = {
      {DriverResult::kSuccess, "CUDA_SUCCESS"},
      {DriverResult::kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {DriverResult::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {DriverResult::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {DriverResult::kDeinitialized, "CUDA_ERROR_DEINITIALIZED"},
      {DriverResult::kStubLibrary, "CUDA_ERROR_STUB_LIBRARY"},
      {DriverResult::kNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {DriverResult::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {DriverResult::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {DriverResult::kMapFailed, "CUDA_ERROR_MAP_FAILED"},
      {DriverResult::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {DriverResult::kIllegalState, "CUDA_ERROR_ILLEGAL_STATE"},
      {DriverResult::kNotFound, "CUDA_ERROR_NOT_FOUND"},
      {DriverResult::kNotReady, "CUDA_ERROR_NOT_READY"},
      {DriverResult::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {DriverResult::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED"},
      {DriverResult::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
      {DriverResult::kStreamCaptureUnsupported,
       "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {DriverResult::kStreamCaptureInvalidated,
       "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {DriverResult::kStreamCaptureImplicit,
       "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
      {DriverResult::kUnknown, "CUDA_ERROR_UNKNOWN"},
  };
  for (const auto& [result, name] : names) {
    EXPECT_EQ(DriverResultName(result), name);
  }
  EXPECT_EQ(DriverResultName(kUnlisted), "unknown result");
}

TEST(DriverStatusTest, SuccessIsOkWhateverTheCall) {
  FIRN_EXPECT_OK(ToStatus(DriverResult::kSuccess, "cuMemMap", "at 0x1000"));
}

TEST(DriverStatusTest, TheMessageNamesCallResultNumberAndDetail) {
  EXPECT_EQ(ToStatus(DriverResult::kOutOfMemory, "cuMemCreate").message(),
            "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2)");
  EXPECT_EQ(
      ToStatus(DriverResult::kMapFailed, "cuMemMap", "4096 bytes").message(),
      "cuMemMap: CUDA_ERROR_MAP_FAILED (205): 4096 bytes");
  EXPECT_EQ(ToStatus(kUnlisted, "cuMemMap").message(),
            "cuMemMap: unknown result (209)");
}

TEST(DriverStatusTest, EachResultHasTheCodeThatCallersActOn) {
  const std::vector<std::pair<DriverResult, absl::StatusCode>> codes = {
      {DriverResult::kOutOfMemory, absl::StatusCode::kResourceExhausted},
      {DriverResult::kNotReady, absl::StatusCode::kUnavailable},
      {DriverResult::kNotSupported, absl::StatusCode::kUnimplemented},
      {DriverResult::kNotPermitted, absl::StatusCode::kPermissionDenied},
      {DriverResult::kInvalidValue, absl::StatusCode::kInternal},
      {DriverResult::kInvalidHandle, absl::StatusCode::kInternal},
      {DriverResult::kMapFailed, absl::StatusCode::kInternal},
      {DriverResult::kUnknown, absl::StatusCode::kInternal},
      {DriverResult::kIllegalAddress, absl::StatusCode::kDataLoss},
      {DriverResult::kDeinitialized, absl::StatusCode::kDataLoss},
      {kUnlisted, absl::StatusCode::kInternal},
  };
  for (const auto& [result, code] : codes) {
    EXPECT_THAT(ToStatus(result, "cuMemUnmap"),
                StatusIs(code, StartsWith("cuMemUnmap: ")));
  }
}

TEST(DriverStatusTest, OnlyResultsThatLoseTheDeviceAreSticky) {
  EXPECT_TRUE(IsStickyResult(DriverResult::kIllegalAddress));
  EXPECT_TRUE(IsStickyResult(DriverResult::kDeinitialized));
  EXPECT_TRUE(IsStickyResult(DriverResult::kLaunchTimeout));
  EXPECT_TRUE(IsStickyResult(DriverResult::kAssert));
  EXPECT_TRUE(IsStickyResult(DriverResult::kLaunchFailed));
  EXPECT_FALSE(IsStickyResult(DriverResult::kSuccess));
  EXPECT_FALSE(IsStickyResult(DriverResult::kOutOfMemory));
  EXPECT_FALSE(IsStickyResult(DriverResult::kNotReady));
  EXPECT_FALSE(IsStickyResult(DriverResult::kUnknown));
  EXPECT_THAT(
      ToStatus(DriverResult::kIllegalAddress, "cuMemMap", "granule 7"),
      StatusIs(
          absl::StatusCode::kDataLoss,
          StartsWith("cuMemMap: CUDA_ERROR_ILLEGAL_ADDRESS (700): granule 7")));
}

}  // namespace
}  // namespace firn::testing

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/driver_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace firn {

absl::string_view DriverResultName(DriverResult result) {
  switch (result) {
    case DriverResult::kSuccess:
      return "CUDA_SUCCESS";
    case DriverResult::kInvalidValue:
      return "CUDA_ERROR_INVALID_VALUE";
    case DriverResult::kOutOfMemory:
      return "CUDA_ERROR_OUT_OF_MEMORY";
    case DriverResult::kNotInitialized:
      return "CUDA_ERROR_NOT_INITIALIZED";
    case DriverResult::kDeinitialized:
      return "CUDA_ERROR_DEINITIALIZED";
    case DriverResult::kStubLibrary:
      return "CUDA_ERROR_STUB_LIBRARY";
    case DriverResult::kNoDevice:
      return "CUDA_ERROR_NO_DEVICE";
    case DriverResult::kInvalidDevice:
      return "CUDA_ERROR_INVALID_DEVICE";
    case DriverResult::kInvalidContext:
      return "CUDA_ERROR_INVALID_CONTEXT";
    case DriverResult::kMapFailed:
      return "CUDA_ERROR_MAP_FAILED";
    case DriverResult::kInvalidHandle:
      return "CUDA_ERROR_INVALID_HANDLE";
    case DriverResult::kIllegalState:
      return "CUDA_ERROR_ILLEGAL_STATE";
    case DriverResult::kNotFound:
      return "CUDA_ERROR_NOT_FOUND";
    case DriverResult::kNotReady:
      return "CUDA_ERROR_NOT_READY";
    case DriverResult::kIllegalAddress:
      return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case DriverResult::kLaunchTimeout:
      return "CUDA_ERROR_LAUNCH_TIMEOUT";
    case DriverResult::kAssert:
      return "CUDA_ERROR_ASSERT";
    case DriverResult::kHardwareStackError:
      return "CUDA_ERROR_HARDWARE_STACK_ERROR";
    case DriverResult::kIllegalInstruction:
      return "CUDA_ERROR_ILLEGAL_INSTRUCTION";
    case DriverResult::kMisalignedAddress:
      return "CUDA_ERROR_MISALIGNED_ADDRESS";
    case DriverResult::kInvalidAddressSpace:
      return "CUDA_ERROR_INVALID_ADDRESS_SPACE";
    case DriverResult::kInvalidPc:
      return "CUDA_ERROR_INVALID_PC";
    case DriverResult::kLaunchFailed:
      return "CUDA_ERROR_LAUNCH_FAILED";
    case DriverResult::kNotPermitted:
      return "CUDA_ERROR_NOT_PERMITTED";
    case DriverResult::kNotSupported:
      return "CUDA_ERROR_NOT_SUPPORTED";
    case DriverResult::kStreamCaptureUnsupported:
      return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case DriverResult::kStreamCaptureInvalidated:
      return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    case DriverResult::kStreamCaptureMerge:
      return "CUDA_ERROR_STREAM_CAPTURE_MERGE";
    case DriverResult::kStreamCaptureUnmatched:
      return "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED";
    case DriverResult::kStreamCaptureUnjoined:
      return "CUDA_ERROR_STREAM_CAPTURE_UNJOINED";
    case DriverResult::kStreamCaptureIsolation:
      return "CUDA_ERROR_STREAM_CAPTURE_ISOLATION";
    case DriverResult::kCapturedEvent:
      return "CUDA_ERROR_CAPTURED_EVENT";
    case DriverResult::kStreamCaptureWrongThread:
      return "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD";
    case DriverResult::kStreamCaptureImplicit:
      return "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
    case DriverResult::kUnknown:
      return "CUDA_ERROR_UNKNOWN";
  }
  return "unknown result";
}

bool IsStickyResult(DriverResult result) {
  switch (result) {
    case DriverResult::kDeinitialized:
    case DriverResult::kIllegalAddress:
    case DriverResult::kLaunchTimeout:
    case DriverResult::kAssert:
    case DriverResult::kHardwareStackError:
    case DriverResult::kIllegalInstruction:
    case DriverResult::kMisalignedAddress:
    case DriverResult::kInvalidAddressSpace:
    case DriverResult::kInvalidPc:
    case DriverResult::kLaunchFailed:
      return true;
    default:
      return false;
  }
}

absl::Status ToStatus(DriverResult result, absl::string_view call,
                      absl::string_view detail) {
  if (result == DriverResult::kSuccess) return absl::OkStatus();
  std::string message = absl::StrCat(call, ": ", DriverResultName(result), " (",
                                     static_cast<int32_t>(result), ")");
  if (!detail.empty()) absl::StrAppend(&message, ": ", detail);
  if (IsStickyResult(result)) {
    return absl::DataLossError(absl::StrCat(message, "; the device is lost"));
  }
  switch (result) {
    case DriverResult::kOutOfMemory:
      return absl::ResourceExhaustedError(message);
    case DriverResult::kNotReady:
      return absl::UnavailableError(message);
    case DriverResult::kNotSupported:
      return absl::UnimplementedError(message);
    case DriverResult::kNotPermitted:
      return absl::PermissionDeniedError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace firn

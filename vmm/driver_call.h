// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls of vmm/driver.h as data: their names, their arguments, and how
// logs and reports spell them.

#ifndef FIRN_VMM_DRIVER_CALL_H_
#define FIRN_VMM_DRIVER_CALL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/driver_types.h"

namespace firn {

// The calls of Driver that can fail: all but identity(), in its order.
enum class DriverCall : uint8_t {
  kDeviceGetCount,
  kDeviceGetAttribute,
  kDeviceCanAccessPeer,
  kMemGetAllocationGranularity,
  kMemAddressReserve,
  kMemAddressFree,
  kMemCreate,
  kMemRelease,
  kMemMap,
  kMemUnmap,
  kMemSetAccess,
  kMemGetAccess,
  kMemRetainAllocationHandle,
  kMemGetAllocationPropertiesFromHandle,
  kMemExportToShareableHandle,
  kMemImportFromShareableHandle,
  kMemGetAddressRange,
  kPointerGetAttribute,
  kMemGetInfo,
  kMemAlloc,
  kMemFree,
  kMemcpyDtoDAsync,
  kMemcpyHtoDAsync,
  kMemcpyDtoHAsync,
  kMemsetD8Async,
  kStreamCreate,
  kStreamDestroy,
  kStreamQuery,
  kStreamSynchronize,
  kStreamGetId,
  kStreamIsCapturing,
  kStreamWaitEvent,
  kEventCreate,
  kEventDestroy,
  kEventRecord,
  kEventQuery,
  kEventSynchronize,
  kCtxSynchronize,
  kStreamWaitValue32,
  kStreamWaitValue64,
  kStreamWriteValue32,
  kStreamWriteValue64,
  kLaunchHostFunc,
  kStreamBeginCapture,
  kStreamEndCapture,
  kThreadExchangeStreamCaptureMode,
  kGraphInstantiate,
  kGraphLaunch,
  kGraphExecDestroy,
  kGraphDestroy,
};
inline constexpr int kDriverCallCount =
    static_cast<int>(DriverCall::kGraphDestroy) + 1;

// As CUDA calls it, without a version suffix: "cuMemMap".
absl::string_view DriverCallName(DriverCall call);
// The inverse of DriverCallName; InvalidArgument names what is unknown.
absl::StatusOr<DriverCall> ParseDriverCall(absl::string_view name);

// One call with its arguments, in order, as numbers: cheap to make on every
// call, formatted only where somebody wants to read it.
struct DriverCallArgs {
  static constexpr size_t kMaxArgs = 5;

  template <typename... T>
  explicit DriverCallArgs(DriverCall kind, T... args)
      : call(kind), values{AsNumber(args)...} {
    static_assert(sizeof...(T) <= kMaxArgs, "no call has so many arguments");
  }

  DriverCall call;
  std::array<uint64_t, kMaxArgs> values;

 private:
  template <typename T>
  static uint64_t AsNumber(T value) {
    if constexpr (std::is_pointer_v<T>) {
      return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(value));
    } else {
      return static_cast<uint64_t>(value);
    }
  }
};

// "cuMemMap(address=0x7f0000000000, bytes=2097152, ...)".
std::string FormatDriverCall(const DriverCallArgs& args);

}  // namespace firn

#endif  // FIRN_VMM_DRIVER_CALL_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every call of Driver that can fail, for tests of what concerns them all; and
// a driver that notes what reaches it.

#ifndef FIRN_TESTS_VMM_ALL_DRIVER_CALLS_H_
#define FIRN_TESTS_VMM_ALL_DRIVER_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"

namespace firn::testing {

// Answers each call that can fail with `result`; has no effects.
class NotingDriver : public DriverWrapper {
 public:
  NotingDriver() : DriverWrapper(nullptr) {}

  DriverResult result = DriverResult::kSuccess;
  std::vector<DriverCallArgs> calls;

 protected:
  DriverResult Around(const DriverCallArgs& args,
                      absl::FunctionRef<DriverResult()>) override {
    calls.push_back(args);
    return result;
  }
};

struct NamedDriverCall {
  DriverCall kind;
  // With the arguments 1, 2, 3 and so on, as far as their types go: they mean
  // nothing to a driver.
  std::function<DriverResult(Driver&)> make;
  std::vector<uint64_t> arguments;
};

// A pointer, or a value of another type, that reads as this number.
template <typename T>
T As(uint64_t number) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(static_cast<uintptr_t>(number));
  } else {
    return static_cast<T>(number);
  }
}

template <typename... Args, size_t... kIndices>
NamedDriverCall Named(DriverCall kind, DriverResult (Driver::*method)(Args...),
                      std::index_sequence<kIndices...> /*of the arguments*/) {
  return {kind,
          [method](Driver& driver) {
            return (driver.*method)(As<Args>(kIndices + 1)...);
          },
          {(kIndices + 1)...}};
}

template <typename... Args>
NamedDriverCall Named(DriverCall kind,
                      DriverResult (Driver::*method)(Args...)) {
  return Named(kind, method, std::index_sequence_for<Args...>());
}

inline std::vector<NamedDriverCall> AllDriverCalls() {
#define FIRN_CALL(name) Named(DriverCall::k##name, &Driver::name)
  return {
      FIRN_CALL(DeviceGetCount),
      FIRN_CALL(DeviceGetAttribute),
      FIRN_CALL(DeviceCanAccessPeer),
      FIRN_CALL(MemGetAllocationGranularity),
      FIRN_CALL(MemAddressReserve),
      FIRN_CALL(MemAddressFree),
      FIRN_CALL(MemCreate),
      FIRN_CALL(MemRelease),
      FIRN_CALL(MemMap),
      FIRN_CALL(MemUnmap),
      FIRN_CALL(MemSetAccess),
      FIRN_CALL(MemGetAccess),
      FIRN_CALL(MemRetainAllocationHandle),
      FIRN_CALL(MemGetAllocationPropertiesFromHandle),
      FIRN_CALL(MemExportToShareableHandle),
      FIRN_CALL(MemImportFromShareableHandle),
      FIRN_CALL(MemGetAddressRange),
      FIRN_CALL(PointerGetAttribute),
      FIRN_CALL(MemGetInfo),
      FIRN_CALL(MemAlloc),
      FIRN_CALL(MemFree),
      FIRN_CALL(MemcpyDtoDAsync),
      FIRN_CALL(MemcpyHtoDAsync),
      FIRN_CALL(MemcpyDtoHAsync),
      FIRN_CALL(MemsetD8Async),
      FIRN_CALL(StreamCreate),
      FIRN_CALL(StreamDestroy),
      FIRN_CALL(StreamQuery),
      FIRN_CALL(StreamSynchronize),
      FIRN_CALL(StreamGetId),
      FIRN_CALL(StreamIsCapturing),
      FIRN_CALL(StreamWaitEvent),
      FIRN_CALL(EventCreate),
      FIRN_CALL(EventDestroy),
      FIRN_CALL(EventRecord),
      FIRN_CALL(EventQuery),
      FIRN_CALL(EventSynchronize),
      FIRN_CALL(CtxSynchronize),
      FIRN_CALL(StreamWaitValue32),
      FIRN_CALL(StreamWaitValue64),
      FIRN_CALL(StreamWriteValue32),
      FIRN_CALL(StreamWriteValue64),
      FIRN_CALL(LaunchHostFunc),
      FIRN_CALL(StreamBeginCapture),
      FIRN_CALL(StreamEndCapture),
      FIRN_CALL(ThreadExchangeStreamCaptureMode),
      FIRN_CALL(GraphInstantiate),
      FIRN_CALL(GraphLaunch),
      FIRN_CALL(GraphExecDestroy),
      FIRN_CALL(GraphDestroy),
  };
#undef FIRN_CALL
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_ALL_DRIVER_CALLS_H_

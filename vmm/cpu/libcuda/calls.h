// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the exported functions begin with: is there a process, a context, a
// device to act on. Private to vmm/cpu/libcuda.

#ifndef FIRN_VMM_CPU_LIBCUDA_CALLS_H_
#define FIRN_VMM_CPU_LIBCUDA_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "firn/vmm/cpu/libcuda/context_driver.h"
#include "firn/vmm/cpu/libcuda/contexts.h"
#include "firn/vmm/cpu/libcuda/process.h"
#include "firn/vmm/driver_types.h"

namespace firn::libcuda {

// Results that only the calls here give.
inline constexpr auto kPeerAccessUnsupported = static_cast<DriverResult>(217);
inline constexpr auto kPeerAccessAlreadyEnabled =
    static_cast<DriverResult>(704);
inline constexpr auto kPeerAccessNotEnabled = static_cast<DriverResult>(705);
inline constexpr auto kContextIsDestroyed = static_cast<DriverResult>(709);

// call(Process&), once cuInit was called.
template <typename Call>
DriverResult InProcess(const Call& call) {
  Process* process = nullptr;
  const DriverResult result = Process::Get(&process);
  return result == DriverResult::kSuccess ? call(*process) : result;
}

// call(Process&, const Device&) with the device of that ordinal.
template <typename Call>
DriverResult OnDevice(CudaDeviceId id, const Call& call) {
  return InProcess([&](Process& process) {
    if (id < 0 || static_cast<size_t>(id) >= process.devices().size()) {
      return DriverResult::kInvalidDevice;
    }
    return call(process, process.devices()[static_cast<size_t>(id)]);
  });
}

// call(Process&, const Device&) in that context; `if_dead` if there is none.
template <typename Call>
DriverResult InContext(Process& process, CudaContext context,
                       DriverResult if_dead, const Call& call) {
  const int ordinal = process.contexts().DeviceOf(context);
  if (ordinal == Contexts::kNoDevice) return if_dead;
  const Device& device = process.devices()[static_cast<size_t>(ordinal)];
  if (Contexts::IsPrimary(context)) return call(process, device);
  const Contexts::Use use(&process.contexts(), context);
  if (use.driver() == nullptr) return if_dead;
  const ContextDriver::Scope scope(use.driver());
  Device acting = device;
  acting.cpu = use.driver();
  return call(process, acting);
}

// The same in the current context, which there must be.
template <typename Call>
DriverResult OnCurrentDevice(const Call& call) {
  return InProcess([&](Process& process) {
    const CudaContext current = Contexts::Current();
    if (current == nullptr) return DriverResult::kInvalidContext;
    return InContext(process, current, kContextIsDestroyed, call);
  });
}

// The same for calls that need no context: without one, with the first device.
template <typename Call>
DriverResult OnAnyDevice(const Call& call) {
  return InProcess([&](Process& process) {
    const CudaContext current = Contexts::Current();
    if (process.contexts().DeviceOf(current) == Contexts::kNoDevice) {
      return call(process, process.devices().front());
    }
    return InContext(process, current, kContextIsDestroyed, call);
  });
}

// call(Process&, const Device&, StreamHandle) with the current device and the
// stream that a handle means.
template <typename Call>
DriverResult OnStream(StreamHandle stream, const Call& call) {
  // CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
  const auto number = reinterpret_cast<uintptr_t>(stream);
  if (number == 1) stream = nullptr;
  return OnCurrentDevice([&](Process& process, const Device& device) {
    if (number == 2) return DriverResult::kNotSupported;
    return call(process, device, stream);
  });
}

}  // namespace firn::libcuda

#endif  // FIRN_VMM_CPU_LIBCUDA_CALLS_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exported functions on contexts.

#include <array>
#include <atomic>

#include "firn/vmm/cpu/libcuda/calls.h"
#include "firn/vmm/cpu/libcuda/contexts.h"
#include "firn/vmm/cpu/libcuda/process.h"
#include "firn/vmm/cpu/libcuda/symbols.h"

namespace firn::libcuda {
namespace {

// CU_CTX_FLAGS_MASK: accepted and without effect.
constexpr uint32_t kContextFlags = 0xff;

// Whether the device (first) was given access to the peer. Only what was not
// made by cuMemCreate depends on it on a real device; here nothing does.
std::array<std::array<std::atomic<bool>, kMaxCpuDevices>, kMaxCpuDevices>
    peer_access = {};

// What forbids every call: a host function that runs, a device that is lost.
DriverResult CheckCallable(const Device& device) {
  int32_t count = 0;
  return device.cpu->DeviceGetCount(&count);
}

DriverResult CreateContext(CudaContext* context, uint32_t flags,
                           CudaDeviceId id) {
  return OnDevice(id, [&](Process& process, const Device& device) {
    if (context == nullptr || (flags & ~kContextFlags) != 0) {
      return DriverResult::kInvalidValue;
    }
    DriverResult result = CheckCallable(device);
    if (result != DriverResult::kSuccess) return result;
    CudaContext made = nullptr;
    result = process.contexts().Create(&made, device.cpu, flags);
    if (result != DriverResult::kSuccess) return result;
    if (!Contexts::Push(made)) {
      process.contexts().Destroy(made);
      return DriverResult::kOutOfMemory;
    }
    *context = made;
    return DriverResult::kSuccess;
  });
}

// call(std::atomic<bool>* access, const Device&, int peer) for a peer of the
// current device.
template <typename Call>
DriverResult WithPeer(CudaContext peer_context, const Call& call) {
  return OnCurrentDevice([&](Process& process, const Device& device) {
    const int peer = process.contexts().DeviceOf(peer_context);
    if (peer == Contexts::kNoDevice) return DriverResult::kInvalidContext;
    return call(&peer_access[static_cast<size_t>(device.ordinal)]
                            [static_cast<size_t>(peer)],
                device, peer);
  });
}

}  // namespace

extern "C" {

// --- Primary contexts ---

DriverResult cuDevicePrimaryCtxRetain_v7000(CudaContext* context,
                                            CudaDeviceId id) {
  return OnDevice(id, [&](Process& process, const Device& device) {
    if (context == nullptr) return DriverResult::kInvalidValue;
    *context = process.contexts().Retain(device.ordinal);
    return DriverResult::kSuccess;
  });
}

DriverResult cuDevicePrimaryCtxRelease_v11000(CudaDeviceId id) {
  return OnDevice(id, [&](Process& process, const Device& device) {
    return process.contexts().Release(device.ordinal);
  });
}

DriverResult cuDevicePrimaryCtxGetState_v7000(CudaDeviceId id, uint32_t* flags,
                                              int32_t* active) {
  return OnDevice(id, [&](Process& process, const Device& device) {
    if (flags == nullptr || active == nullptr) {
      return DriverResult::kInvalidValue;
    }
    *flags = process.contexts().PrimaryFlags(device.ordinal);
    *active = process.contexts().IsRetained(device.ordinal) ? 1 : 0;
    return DriverResult::kSuccess;
  });
}

DriverResult cuDevicePrimaryCtxSetFlags_v11000(CudaDeviceId id,
                                               uint32_t flags) {
  return OnDevice(id, [&](Process& process, const Device& device) {
    if ((flags & ~kContextFlags) != 0) return DriverResult::kInvalidValue;
    process.contexts().SetPrimaryFlags(device.ordinal, flags);
    return DriverResult::kSuccess;
  });
}

// What the primary context owns is there for good.
DriverResult cuDevicePrimaryCtxReset_v11000(CudaDeviceId id) {
  return OnDevice(id, [&](Process& process, const Device& device) {
    return process.contexts().IsRetained(device.ordinal)
               ? DriverResult::kNotSupported
               : DriverResult::kSuccess;
  });
}

// --- Other contexts ---

DriverResult cuCtxCreate_v3020(CudaContext* context, uint32_t flags,
                               CudaDeviceId id) {
  return CreateContext(context, flags, id);
}

// Execution affinities are MPS's.
DriverResult cuCtxCreate_v11040(CudaContext* context, void* affinities,
                                int32_t affinity_count, uint32_t flags,
                                CudaDeviceId id) {
  if (affinities != nullptr || affinity_count != 0) {
    return InProcess([](Process&) { return DriverResult::kNotSupported; });
  }
  return CreateContext(context, flags, id);
}

DriverResult cuCtxCreate_v12050(CudaContext* context, void* params,
                                uint32_t flags, CudaDeviceId id) {
  if (params != nullptr) {
    return InProcess([](Process&) { return DriverResult::kNotSupported; });
  }
  return CreateContext(context, flags, id);
}

DriverResult cuCtxDestroy_v4000(CudaContext context) {
  return InProcess([&](Process& process) {
    // Of a lost device as well.
    DriverResult result = CheckCallable(process.devices().front());
    if (result == DriverResult::kNotPermitted) return result;
    result = process.contexts().Destroy(context);
    if (result == DriverResult::kSuccess && Contexts::Current() == context) {
      Contexts::Pop();
    }
    return result;
  });
}

// --- The current context ---

DriverResult cuCtxPushCurrent_v4000(CudaContext context) {
  return InProcess([&](Process& process) {
    if (process.contexts().DeviceOf(context) == Contexts::kNoDevice) {
      return DriverResult::kInvalidContext;
    }
    return Contexts::Push(context) ? DriverResult::kSuccess
                                   : DriverResult::kOutOfMemory;
  });
}

DriverResult cuCtxPopCurrent_v4000(CudaContext* context) {
  return InProcess([&](Process&) {
    const CudaContext popped = Contexts::Pop();
    if (popped == nullptr) return DriverResult::kInvalidContext;
    if (context != nullptr) *context = popped;
    return DriverResult::kSuccess;
  });
}

DriverResult cuCtxGetCurrent_v4000(CudaContext* context) {
  return InProcess([&](Process&) {
    if (context == nullptr) return DriverResult::kInvalidValue;
    *context = Contexts::Current();
    return DriverResult::kSuccess;
  });
}

// Replaces the current context, or leaves the one below it for null.
DriverResult cuCtxSetCurrent_v4000(CudaContext context) {
  return InProcess([&](Process& process) {
    if (context != nullptr &&
        process.contexts().DeviceOf(context) == Contexts::kNoDevice) {
      return DriverResult::kInvalidContext;
    }
    Contexts::Pop();
    if (context != nullptr) Contexts::Push(context);
    return DriverResult::kSuccess;
  });
}

DriverResult cuCtxGetDevice_v2000(CudaDeviceId* id) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    if (id == nullptr) return DriverResult::kInvalidValue;
    *id = device.ordinal;
    return DriverResult::kSuccess;
  });
}

// Of any context; null is the current one.
DriverResult cuCtxGetDevice_v13000(CudaDeviceId* id, CudaContext context) {
  if (context == nullptr) return cuCtxGetDevice_v2000(id);
  return InProcess([&](Process& process) {
    if (id == nullptr) return DriverResult::kInvalidValue;
    const int ordinal = process.contexts().DeviceOf(context);
    if (ordinal == Contexts::kNoDevice) return DriverResult::kInvalidContext;
    *id = ordinal;
    return DriverResult::kSuccess;
  });
}

DriverResult cuCtxGetFlags_v7000(uint32_t* flags) {
  return OnCurrentDevice([&](Process& process, const Device&) {
    if (flags == nullptr) return DriverResult::kInvalidValue;
    *flags = process.contexts().FlagsOf(Contexts::Current());
    return DriverResult::kSuccess;
  });
}

// All streams are alike.
DriverResult cuCtxGetStreamPriorityRange_v5050(int32_t* least,
                                               int32_t* greatest) {
  return OnCurrentDevice([&](Process&, const Device&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = 0;
    return DriverResult::kSuccess;
  });
}

DriverResult cuCtxSynchronize_v2000() {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->CtxSynchronize();
  });
}

// Of any context; null is the current one.
DriverResult cuCtxSynchronize_v13000(CudaContext context) {
  if (context == nullptr) return cuCtxSynchronize_v2000();
  return InProcess([&](Process& process) {
    return InContext(process, context, DriverResult::kInvalidContext,
                     [](Process&, const Device& device) {
                       return device.front->CtxSynchronize();
                     });
  });
}

// --- Peers ---

DriverResult cuCtxEnablePeerAccess_v4000(CudaContext peer_context,
                                         uint32_t flags) {
  return WithPeer(peer_context, [&](std::atomic<bool>* access,
                                    const Device& device, int peer) {
    if (flags != 0) return DriverResult::kInvalidValue;
    if (peer == device.ordinal) return DriverResult::kInvalidDevice;
    int32_t can_access = 0;
    const DriverResult result =
        device.cpu->DeviceCanAccessPeer(&can_access, peer);
    if (result != DriverResult::kSuccess) return result;
    if (can_access == 0) return kPeerAccessUnsupported;
    return access->exchange(true) ? kPeerAccessAlreadyEnabled
                                  : DriverResult::kSuccess;
  });
}

DriverResult cuCtxDisablePeerAccess_v4000(CudaContext peer_context) {
  return WithPeer(peer_context,
                  [&](std::atomic<bool>* access, const Device&, int) {
                    return access->exchange(false) ? DriverResult::kSuccess
                                                   : kPeerAccessNotEnabled;
                  });
}

}  // extern "C"
}  // namespace firn::libcuda

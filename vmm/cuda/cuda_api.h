// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions of the CUDA Driver API that firn calls, as pointers to be
// filled at run time, and the table of their names, suffixes and versions.
// Private to vmm/cuda. vmm/cuda/abi_check.cc compares every line of the table
// with the toolkit's headers wherever those are installed.

#ifndef FIRN_VMM_CUDA_CUDA_API_H_
#define FIRN_VMM_CUDA_CUDA_API_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "firn/vmm/driver_types.h"

struct CUctx_st;

namespace firn {

// CUdevice and CUcontext.
using CudaDeviceId = int32_t;
using CudaContext = CUctx_st*;

// CU_GET_PROC_ADDRESS_LEGACY_STREAM: the null stream is the legacy default
// stream, whatever the program was compiled with.
inline constexpr uint64_t kLegacyStreamSymbols = 1;

// CUdriverProcAddressQueryResult.
enum class ProcAddressStatus : int32_t {
  kSuccess = 0,
  kSymbolNotFound = 1,
  kVersionNotSufficient = 2,
};

// cuGetProcAddress as introduced by CUDA 12.0 and by CUDA 11.3.
using CudaGetProcAddressV2 = DriverResult(const char* symbol, void** function,
                                          int32_t version, uint64_t flags,
                                          ProcAddressStatus* status);
using CudaGetProcAddressV1 = DriverResult(const char* symbol, void** function,
                                          int32_t version, uint64_t flags);

// The first CUDA version that has every required function below.
inline constexpr int32_t kMinimumDriverVersion = 11000;

// X(name without "cu", suffix of the exported symbol, version, signature).
//
// The version is the one that introduced this signature and never changes: a
// driver asked for a newer one may answer with a function of another
// signature. The suffix names that same signature among the exported symbols;
// where it is not empty, the plain name is an older, incompatible function.
//
// What tells of a driver's devices: the least that a library must have to be
// called a driver.
#define FIRN_CUDA_DEVICE_SYMBOLS(X)                                      \
  X(Init, "", 2000, DriverResult(uint32_t))                              \
  X(DriverGetVersion, "", 2020, DriverResult(int32_t*))                  \
  X(DeviceGet, "", 2000, DriverResult(CudaDeviceId*, int32_t))           \
  X(DeviceGetCount, "", 2000, DriverResult(int32_t*))                    \
  X(DeviceGetName, "", 2000, DriverResult(char*, int32_t, CudaDeviceId)) \
  X(DeviceGetAttribute, "", 2000,                                        \
    DriverResult(int32_t*, DeviceAttribute, CudaDeviceId))

// What moving memory takes, and what every driver of that age has besides.
#define FIRN_CUDA_MOVING_SYMBOLS(X)                                            \
  X(DeviceCanAccessPeer, "", 4000,                                             \
    DriverResult(int32_t*, CudaDeviceId, CudaDeviceId))                        \
  X(DevicePrimaryCtxRetain, "", 7000,                                          \
    DriverResult(CudaContext*, CudaDeviceId))                                  \
  X(DevicePrimaryCtxRelease, "_v2", 11000, DriverResult(CudaDeviceId))         \
  X(CtxPushCurrent, "_v2", 4000, DriverResult(CudaContext))                    \
  X(CtxPopCurrent, "_v2", 4000, DriverResult(CudaContext*))                    \
  X(CtxSynchronize, "", 2000, DriverResult())                                  \
  X(MemGetAllocationGranularity, "", 10020,                                    \
    DriverResult(size_t*, const AllocationProp*, GranularityKind))             \
  X(MemAddressReserve, "", 10020,                                              \
    DriverResult(DevicePtr*, size_t, size_t, DevicePtr, uint64_t))             \
  X(MemAddressFree, "", 10020, DriverResult(DevicePtr, size_t))                \
  X(MemCreate, "", 10020,                                                      \
    DriverResult(PhysicalHandle*, size_t, const AllocationProp*, uint64_t))    \
  X(MemRelease, "", 10020, DriverResult(PhysicalHandle))                       \
  X(MemMap, "", 10020,                                                         \
    DriverResult(DevicePtr, size_t, size_t, PhysicalHandle, uint64_t))         \
  X(MemUnmap, "", 10020, DriverResult(DevicePtr, size_t))                      \
  X(MemSetAccess, "", 10020,                                                   \
    DriverResult(DevicePtr, size_t, const AccessDesc*, size_t))                \
  X(MemGetAccess, "", 10020,                                                   \
    DriverResult(uint64_t*, const MemLocation*, DevicePtr))                    \
  X(MemRetainAllocationHandle, "", 11000,                                      \
    DriverResult(PhysicalHandle*, void*))                                      \
  X(MemGetAllocationPropertiesFromHandle, "", 10020,                           \
    DriverResult(AllocationProp*, PhysicalHandle))                             \
  X(MemExportToShareableHandle, "", 10020,                                     \
    DriverResult(void*, PhysicalHandle, ShareableHandleType, uint64_t))        \
  X(MemImportFromShareableHandle, "", 10020,                                   \
    DriverResult(PhysicalHandle*, void*, ShareableHandleType))                 \
  X(MemGetAddressRange, "_v2", 3020,                                           \
    DriverResult(DevicePtr*, size_t*, DevicePtr))                              \
  X(PointerGetAttribute, "", 4000,                                             \
    DriverResult(void*, PointerAttribute, DevicePtr))                          \
  X(MemGetInfo, "_v2", 3020, DriverResult(size_t*, size_t*))                   \
  X(MemAlloc, "_v2", 3020, DriverResult(DevicePtr*, size_t))                   \
  X(MemFree, "_v2", 3020, DriverResult(DevicePtr))                             \
  X(MemcpyDtoDAsync, "_v2", 3020,                                              \
    DriverResult(DevicePtr, DevicePtr, size_t, StreamHandle))                  \
  X(MemcpyHtoDAsync, "_v2", 3020,                                              \
    DriverResult(DevicePtr, const void*, size_t, StreamHandle))                \
  X(MemcpyDtoHAsync, "_v2", 3020,                                              \
    DriverResult(void*, DevicePtr, size_t, StreamHandle))                      \
  X(MemsetD8Async, "", 3020,                                                   \
    DriverResult(DevicePtr, unsigned char, size_t, StreamHandle))              \
  X(StreamCreate, "", 2000, DriverResult(StreamHandle*, uint32_t))             \
  X(StreamDestroy, "_v2", 4000, DriverResult(StreamHandle))                    \
  X(StreamQuery, "", 2000, DriverResult(StreamHandle))                         \
  X(StreamSynchronize, "", 2000, DriverResult(StreamHandle))                   \
  X(StreamIsCapturing, "", 10000, DriverResult(StreamHandle, CaptureStatus*))  \
  X(StreamWaitEvent, "", 3020,                                                 \
    DriverResult(StreamHandle, EventHandle, uint32_t))                         \
  X(EventCreate, "", 2000, DriverResult(EventHandle*, uint32_t))               \
  X(EventDestroy, "_v2", 4000, DriverResult(EventHandle))                      \
  X(EventRecord, "", 2000, DriverResult(EventHandle, StreamHandle))            \
  X(EventQuery, "", 2000, DriverResult(EventHandle))                           \
  X(EventSynchronize, "", 2000, DriverResult(EventHandle))                     \
  X(LaunchHostFunc, "", 10000,                                                 \
    DriverResult(StreamHandle, HostFunction, void*))                           \
  X(StreamBeginCapture, "_v2", 10010, DriverResult(StreamHandle, CaptureMode)) \
  X(StreamEndCapture, "", 10000, DriverResult(StreamHandle, GraphHandle*))     \
  X(ThreadExchangeStreamCaptureMode, "", 10010, DriverResult(CaptureMode*))    \
  X(GraphLaunch, "", 10000, DriverResult(GraphExecHandle, StreamHandle))       \
  X(GraphExecDestroy, "", 10000, DriverResult(GraphExecHandle))                \
  X(GraphDestroy, "", 10000, DriverResult(GraphHandle))

#define FIRN_CUDA_REQUIRED_SYMBOLS(X) \
  FIRN_CUDA_DEVICE_SYMBOLS(X)         \
  FIRN_CUDA_MOVING_SYMBOLS(X)

// As above; null where the driver lacks them. All but the first came after
// kMinimumDriverVersion.
#define FIRN_CUDA_OPTIONAL_SYMBOLS(X)                                   \
  X(GetErrorString, "", 6000, DriverResult(DriverResult, const char**)) \
  X(StreamGetId, "", 12000, DriverResult(StreamHandle, uint64_t*))      \
  X(StreamWaitValue32, "_v2", 11070,                                    \
    DriverResult(StreamHandle, DevicePtr, uint32_t, uint32_t))          \
  X(StreamWaitValue64, "_v2", 11070,                                    \
    DriverResult(StreamHandle, DevicePtr, uint64_t, uint32_t))          \
  X(StreamWriteValue32, "_v2", 11070,                                   \
    DriverResult(StreamHandle, DevicePtr, uint32_t, uint32_t))          \
  X(StreamWriteValue64, "_v2", 11070,                                   \
    DriverResult(StreamHandle, DevicePtr, uint64_t, uint32_t))          \
  X(GraphInstantiateWithFlags, "", 11040,                               \
    DriverResult(GraphExecHandle*, GraphHandle, uint64_t))

// One driver's functions.
struct CudaApi {
#define FIRN_CUDA_MEMBER(name, suffix, version, signature) \
  std::add_pointer_t<signature> name = nullptr;
  FIRN_CUDA_REQUIRED_SYMBOLS(FIRN_CUDA_MEMBER)
  FIRN_CUDA_OPTIONAL_SYMBOLS(FIRN_CUDA_MEMBER)
#undef FIRN_CUDA_MEMBER

  // What DriverGetVersion answered: 1000 * major + 10 * minor.
  int32_t driver_version = 0;
  // Why no memory can be moved through this driver: what was found and what is
  // needed, as the end of a sentence. Empty where it can: then all required
  // functions are there; else only FIRN_CUDA_DEVICE_SYMBOLS are sure to be.
  std::string shortfall;
};

}  // namespace firn

#endif  // FIRN_VMM_CUDA_CUDA_API_H_

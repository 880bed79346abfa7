// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions of the CUDA Driver API that the libcuda-shaped library has: all
// that firn's own loader asks for (vmm/cuda/cuda_api.h), and what other
// programs need besides. Private to vmm/cpu/libcuda. abi_check.cc compares
// every line with the toolkit's headers wherever those are installed.

#ifndef FIRN_VMM_CPU_LIBCUDA_SYMBOLS_H_
#define FIRN_VMM_CPU_LIBCUDA_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/driver_types.h"

namespace firn::libcuda {

// CUuuid.
struct DeviceUuid {
  char bytes[16];
};

// X(name without "cu", suffix of the exported symbol, version, signature), as
// in cuda_api.h. Several lines may have one name: cuGetProcAddress answers with
// the newest that is no newer than the version asked for. Pointers to what no
// call here looks at are void*.
#define FIRN_LIBCUDA_MORE_SYMBOLS(X)                                       \
  X(GetProcAddress, "", 11030, CudaGetProcAddressV1)                       \
  X(GetProcAddress, "_v2", 12000, CudaGetProcAddressV2)                    \
  X(GetErrorName, "", 6000, DriverResult(DriverResult, const char**))      \
  X(DeviceTotalMem, "_v2", 3020, DriverResult(size_t*, CudaDeviceId))      \
  X(DeviceGetUuid, "", 9020, DriverResult(DeviceUuid*, CudaDeviceId))      \
  X(DeviceGetUuid, "_v2", 11040, DriverResult(DeviceUuid*, CudaDeviceId))  \
  X(DevicePrimaryCtxGetState, "", 7000,                                    \
    DriverResult(CudaDeviceId, uint32_t*, int32_t*))                       \
  X(DevicePrimaryCtxReset, "_v2", 11000, DriverResult(CudaDeviceId))       \
  X(DevicePrimaryCtxSetFlags, "_v2", 11000,                                \
    DriverResult(CudaDeviceId, uint32_t))                                  \
  X(CtxCreate, "_v2", 3020,                                                \
    DriverResult(CudaContext*, uint32_t, CudaDeviceId))                    \
  X(CtxCreate, "_v3", 11040,                                               \
    DriverResult(CudaContext*, void*, int32_t, uint32_t, CudaDeviceId))    \
  X(CtxCreate, "_v4", 12050,                                               \
    DriverResult(CudaContext*, void*, uint32_t, CudaDeviceId))             \
  X(CtxDestroy, "_v2", 4000, DriverResult(CudaContext))                    \
  X(CtxGetCurrent, "", 4000, DriverResult(CudaContext*))                   \
  X(CtxSetCurrent, "", 4000, DriverResult(CudaContext))                    \
  X(CtxGetDevice, "", 2000, DriverResult(CudaDeviceId*))                   \
  X(CtxGetDevice, "_v2", 13000, DriverResult(CudaDeviceId*, CudaContext))  \
  X(CtxGetFlags, "", 7000, DriverResult(uint32_t*))                        \
  X(CtxGetStreamPriorityRange, "", 5050, DriverResult(int32_t*, int32_t*)) \
  X(CtxSynchronize, "_v2", 13000, DriverResult(CudaContext))               \
  X(CtxEnablePeerAccess, "", 4000, DriverResult(CudaContext, uint32_t))    \
  X(CtxDisablePeerAccess, "", 4000, DriverResult(CudaContext))             \
  X(MemHostAlloc, "", 2020, DriverResult(void**, size_t, uint32_t))        \
  X(MemAllocHost, "_v2", 3020, DriverResult(void**, size_t))               \
  X(MemFreeHost, "", 2000, DriverResult(void*))                            \
  X(Memcpy, "", 4000, DriverResult(DevicePtr, DevicePtr, size_t))          \
  X(MemcpyAsync, "", 4000,                                                 \
    DriverResult(DevicePtr, DevicePtr, size_t, StreamHandle))              \
  X(MemcpyDtoD, "_v2", 3020, DriverResult(DevicePtr, DevicePtr, size_t))   \
  X(MemcpyHtoD, "_v2", 3020, DriverResult(DevicePtr, const void*, size_t)) \
  X(MemcpyDtoH, "_v2", 3020, DriverResult(void*, DevicePtr, size_t))       \
  X(MemsetD8, "_v2", 3020, DriverResult(DevicePtr, unsigned char, size_t)) \
  X(MemsetD32, "_v2", 3020, DriverResult(DevicePtr, uint32_t, size_t))     \
  X(MemsetD32Async, "", 3020,                                              \
    DriverResult(DevicePtr, uint32_t, size_t, StreamHandle))               \
  X(PointerGetAttributes, "", 7000,                                        \
    DriverResult(uint32_t, const int32_t*, void**, DevicePtr))             \
  X(StreamCreateWithPriority, "", 5050,                                    \
    DriverResult(StreamHandle*, uint32_t, int32_t))                        \
  X(StreamGetCtx, "", 9020, DriverResult(StreamHandle, CudaContext*))      \
  X(StreamGetCtx, "_v2", 12050,                                            \
    DriverResult(StreamHandle, CudaContext*, void**))

#define FIRN_LIBCUDA_SYMBOLS(X) \
  FIRN_CUDA_REQUIRED_SYMBOLS(X) \
  FIRN_CUDA_OPTIONAL_SYMBOLS(X) \
  FIRN_LIBCUDA_MORE_SYMBOLS(X)

// Each line of the tables as a function, cuMemMap_v10020 for one, that is
// exported under the line's own name. (cudaTypedefs.h names types in the same
// way.) So that neither name nor signature can differ from the table: a
// definition of another signature does not compile, and a line without a
// definition does not link.
extern "C" {
#define FIRN_LIBCUDA_DECLARE(name, suffix, version, signature)       \
  __attribute__((visibility("default"))) std::remove_cv_t<signature> \
      cu##name##_v##version __asm__("cu" #name suffix);
FIRN_LIBCUDA_SYMBOLS(FIRN_LIBCUDA_DECLARE)
#undef FIRN_LIBCUDA_DECLARE
}

}  // namespace firn::libcuda

#endif  // FIRN_VMM_CPU_LIBCUDA_SYMBOLS_H_

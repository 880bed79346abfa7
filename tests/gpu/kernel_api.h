// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions of the CUDA Driver API that measurements need beyond those of
// the library itself: kernels, pinned memory, a second context.

#ifndef FIRN_TESTS_GPU_KERNEL_API_H_
#define FIRN_TESTS_GPU_KERNEL_API_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/driver_types.h"

struct CUmod_st;
struct CUfunc_st;

namespace firn::gpu_check {

// CUmodule and CUfunction.
using CudaModule = CUmod_st*;
using CudaFunction = CUfunc_st*;

// X(name without "cu", suffix of the exported symbol, version, signature), as
// in vmm/cuda/cuda_api.h.
#define FIRN_KERNEL_SYMBOLS(X)                                         \
  X(ModuleLoadData, "", 2000, DriverResult(CudaModule*, const void*))  \
  X(ModuleGetFunction, "", 2000,                                       \
    DriverResult(CudaFunction*, CudaModule, const char*))              \
  X(ModuleUnload, "", 2000, DriverResult(CudaModule))                  \
  X(LaunchKernel, "", 4000,                                            \
    DriverResult(CudaFunction, uint32_t, uint32_t, uint32_t, uint32_t, \
                 uint32_t, uint32_t, uint32_t, StreamHandle, void**, void**))

#define FIRN_CONTEXT_SYMBOLS(X)                                     \
  X(MemHostAlloc, "", 2020, DriverResult(void**, size_t, uint32_t)) \
  X(MemFreeHost, "", 2000, DriverResult(void*))                     \
  X(MemHostGetDevicePointer, "_v2", 3020,                           \
    DriverResult(DevicePtr*, void*, uint32_t))                      \
  X(CtxCreate, "_v2", 3020,                                         \
    DriverResult(CudaContext*, uint32_t, CudaDeviceId))             \
  X(CtxDestroy, "_v2", 4000, DriverResult(CudaContext))

// Null where the driver lacks them.
struct KernelApi {
#define FIRN_KERNEL_MEMBER(name, suffix, version, signature) \
  std::add_pointer_t<signature> name = nullptr;
  FIRN_KERNEL_SYMBOLS(FIRN_KERNEL_MEMBER)
  FIRN_CONTEXT_SYMBOLS(FIRN_KERNEL_MEMBER)
#undef FIRN_KERNEL_MEMBER

  // Unimplemented names the first function of FIRN_KERNEL_SYMBOLS that is
  // missing.
  absl::Status CanLaunch() const;
};

// Of the driver's library, which is open already. Empty: libcuda.so.1.
KernelApi LoadKernelApi(const std::string& library);

// An exported symbol of that library; null if there is none.
void* FindExport(const std::string& library, const char* name);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_KERNEL_API_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/kernels.h"

#include <new>
#include <utility>

#include "firn/vmm/cuda/cuda_loader.h"
#include "tests/gpu/host_kernels.h"
#include "tests/gpu/ptx_kernels.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

// CU_MEMHOSTALLOC_PORTABLE and CU_MEMHOSTALLOC_DEVICEMAP.
constexpr uint32_t kHostAllocFlags = 1 | 2;

// Kept until the process ends.
absl::StatusOr<CudaContext> OpenContext(const CudaApi& api,
                                        const KernelApi& kernel_api,
                                        int ordinal, ContextKind kind) {
  CudaDeviceId device = 0;
  FIRN_TRY_CALL("cuDeviceGet", api.DeviceGet(&device, ordinal));
  CudaContext context = nullptr;
  if (kind == ContextKind::kPrimary) {
    FIRN_TRY_CALL("cuDevicePrimaryCtxRetain",
                  api.DevicePrimaryCtxRetain(&context, device));
    return context;
  }
  if (kernel_api.CtxCreate == nullptr) {
    return absl::UnimplementedError("the driver lacks cuCtxCreate_v2");
  }
  FIRN_TRY_CALL("cuCtxCreate_v2", kernel_api.CtxCreate(&context, 0, device));
  // It was made current as well.
  CudaContext popped = nullptr;
  FIRN_TRY_CALL("cuCtxPopCurrent_v2", api.CtxPopCurrent(&popped));
  return context;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernels>> Kernels::Open(
    const std::string& library, int ordinal, ContextKind kind) {
  FIRN_TRY_ASSIGN(const CudaApi api, LoadCudaApi(library));
  FIRN_TRY_CALL("cuInit", api.Init(0));
  const KernelApi kernel_api = LoadKernelApi(library);
  const HostKernelLauncher host_kernels = FindHostKernelLauncher(library);
  if (host_kernels == nullptr) FIRN_TRY(kernel_api.CanLaunch());
  FIRN_TRY_ASSIGN(const CudaContext context,
                  OpenContext(api, kernel_api, ordinal, kind));
  if (host_kernels != nullptr) {
    return NewHostKernels(api, kernel_api, context, host_kernels);
  }
  return NewPtxKernels(api, kernel_api, context);
}

absl::Status Kernels::InContext(const char* name,
                                absl::FunctionRef<DriverResult()> call) {
  FIRN_TRY_CALL("cuCtxPushCurrent_v2", api_.CtxPushCurrent(context_));
  const DriverResult result = call();
  CudaContext popped = nullptr;
  (void)api_.CtxPopCurrent(&popped);
  return ToStatus(result, name);
}

absl::StatusOr<StreamHandle> Kernels::NewStream() {
  StreamHandle stream = nullptr;
  FIRN_TRY(InContext("cuStreamCreate", [&] {
    return api_.StreamCreate(&stream, kStreamNonBlocking);
  }));
  return stream;
}

absl::Status Kernels::Synchronize(StreamHandle stream) {
  return InContext("cuStreamSynchronize",
                   [&] { return api_.StreamSynchronize(stream); });
}

absl::StatusOr<SpinControl*> Kernels::NewControl() {
  if (kernel_api_.MemHostAlloc == nullptr) {
    return absl::UnimplementedError("the driver lacks cuMemHostAlloc");
  }
  void* memory = nullptr;
  FIRN_TRY(InContext("cuMemHostAlloc", [&] {
    return kernel_api_.MemHostAlloc(&memory, sizeof(SpinControl),
                                    kHostAllocFlags);
  }));
  return new (memory) SpinControl;
}

absl::StatusOr<DevicePtr> Kernels::DeviceAddress(SpinControl* control) {
  if (kernel_api_.MemHostGetDevicePointer == nullptr) {
    return absl::UnimplementedError(
        "the driver lacks cuMemHostGetDevicePointer_v2");
  }
  DevicePtr address = 0;
  FIRN_TRY(InContext("cuMemHostGetDevicePointer_v2", [&] {
    return kernel_api_.MemHostGetDevicePointer(&address, control, 0);
  }));
  return address;
}

}  // namespace firn::gpu_check

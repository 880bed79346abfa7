// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/ptx_kernels.h"

#include <algorithm>

#include "tests/gpu/ptx_text.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr uint32_t kReadBlocks = 2048;  // enough to fill any GPU
constexpr uint32_t kReadThreads = 256;

class PtxKernels : public Kernels {
 public:
  PtxKernels(const CudaApi& api, const KernelApi& kernel_api,
             CudaContext context)
      : Kernels(api, kernel_api, context) {}

  absl::Status Load() {
    CudaModule module = nullptr;
    FIRN_TRY(InContext("cuModuleLoadData", [&] {
      return kernel_api().ModuleLoadData(&module, kPtxText);
    }));
    FIRN_TRY(InContext("cuModuleGetFunction", [&] {
      return kernel_api().ModuleGetFunction(&spin_, module, "firn_spin");
    }));
    return InContext("cuModuleGetFunction", [&] {
      return kernel_api().ModuleGetFunction(&read_, module, "firn_read");
    });
  }

  absl::Status LaunchSpin(StreamHandle stream, SpinControl* control,
                          DevicePtr touched, absl::Duration limit) override {
    FIRN_TRY_ASSIGN(DevicePtr control_address, DeviceAddress(control));
    auto limit_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(limit));
    void* parameters[] = {&control_address, &limit_ns, &touched};
    return Launch(spin_, 1, 1, stream, parameters);
  }

  absl::Status LaunchRead(StreamHandle stream, const ReadPlan& plan) override {
    ReadPlan own = plan;
    uint32_t alias_mask = plan.aliases - 1;
    auto slots = static_cast<uint32_t>(plan.part_bytes / kReadSlotBytes);
    uint32_t interleaved = plan.interleaved ? 1 : 0;
    void* parameters[] = {&own.base,    &own.vg_bytes, &own.part_bytes,
                          &alias_mask,  &own.vg_count, &slots,
                          &interleaved, &own.sink};
    return Launch(read_, kReadBlocks, kReadThreads, stream, parameters);
  }

 private:
  absl::Status Launch(CudaFunction function, uint32_t blocks, uint32_t threads,
                      StreamHandle stream, void** parameters) {
    return InContext("cuLaunchKernel", [&] {
      return kernel_api().LaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0,
                                       stream, parameters, nullptr);
    });
  }

  CudaFunction spin_ = nullptr;
  CudaFunction read_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernels>> NewPtxKernels(
    const CudaApi& api, const KernelApi& kernel_api, CudaContext context) {
  auto kernels = std::make_unique<PtxKernels>(api, kernel_api, context);
  FIRN_TRY(kernels->Load());
  return kernels;
}

}  // namespace firn::gpu_check

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels on the CPU driver's library: host functions that do the same, so
// that measurements can be tried without a GPU.

#ifndef FIRN_TESTS_GPU_HOST_KERNELS_H_
#define FIRN_TESTS_GPU_HOST_KERNELS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "firn/vmm/cpu/libcuda/firn_cpu_driver.h"
#include "tests/gpu/kernels.h"

namespace firn::gpu_check {

using HostKernelLauncher = firnCpuLaunchHostKernelFunction;
// Null: the library is a real driver's.
HostKernelLauncher FindHostKernelLauncher(const std::string& library);

absl::StatusOr<std::unique_ptr<Kernels>> NewHostKernels(
    const CudaApi& api, const KernelApi& kernel_api, CudaContext context,
    HostKernelLauncher launch);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_HOST_KERNELS_H_

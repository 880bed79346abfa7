// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels on a GPU: tests/gpu/ptx_text.h, compiled by the driver.

#ifndef FIRN_TESTS_GPU_PTX_KERNELS_H_
#define FIRN_TESTS_GPU_PTX_KERNELS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tests/gpu/kernels.h"

namespace firn::gpu_check {

absl::StatusOr<std::unique_ptr<Kernels>> NewPtxKernels(
    const CudaApi& api, const KernelApi& kernel_api, CudaContext context);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_PTX_KERNELS_H_

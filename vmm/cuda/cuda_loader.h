// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Opens libcuda.so.1 and finds the functions of vmm/cuda/cuda_api.h in it.

#ifndef FIRN_VMM_CUDA_CUDA_LOADER_H_
#define FIRN_VMM_CUDA_CUDA_LOADER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cuda/cuda_api.h"

namespace firn {

// Opens `library` (empty: "libcuda.so.1") and keeps it open for ever: a driver
// starts threads and registers exit handlers, so unloading it is never safe.
// Calls nothing but cuGetProcAddress and cuDriverGetVersion. Unavailable: no
// library, a stub, or no driver (a function that every driver has is missing or
// refused; it is named). A driver through which no memory can be moved, being
// older than kMinimumDriverVersion or without a function that this takes, is
// returned with its `shortfall`.
absl::StatusOr<CudaApi> LoadCudaApi(const std::string& library);

// Unavailable, saying that `call` returned `result` and what the driver calls
// that.
absl::Status CudaUnavailable(const CudaApi& api, absl::string_view call,
                             DriverResult result);

}  // namespace firn

#endif  // FIRN_VMM_CUDA_CUDA_LOADER_H_

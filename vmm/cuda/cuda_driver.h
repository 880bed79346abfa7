// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The real thing: libcuda.so.1, opened at run time. Nothing links to CUDA.

#ifndef FIRN_VMM_CUDA_CUDA_DRIVER_H_
#define FIRN_VMM_CUDA_CUDA_DRIVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "firn/vmm/driver.h"

namespace firn {

struct CudaDriverOptions {
  int device_ordinal = 0;
  // The library to open; empty means "libcuda.so.1" on the loader's path.
  std::string library;
};

// Opens the driver and the device's primary context. Unavailable says in one
// sentence why it cannot be used: no library, no device, no such ordinal, a
// driver too old, a missing symbol (named), no virtual memory management.
absl::StatusOr<std::unique_ptr<Driver>> OpenCudaDriver(
    const CudaDriverOptions& options);

}  // namespace firn

#endif  // FIRN_VMM_CUDA_CUDA_DRIVER_H_

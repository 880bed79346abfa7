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
  // Whether a device that says it has no virtual memory management is refused.
  // On it, MemAlloc is the one way to memory.
  bool needs_virtual_memory = true;
};

// Opens the driver and the device's primary context. The status tells the two
// ways of failing apart, each in one sentence of what was found and what is
// needed:
//   Unavailable:   there is no CUDA device to use: no library, a stub, a
//   library
//                  that is no driver, no device, no such ordinal, a driver that
//                  does not start, a context that cannot be had;
//   Unimplemented: there is one, but no memory can be moved on it: the driver
//   is
//                  too old or lacks a function (named), or the device does not
//                  support virtual memory management and the options ask for
//                  it. Who can do without moving may use it in other ways.
// A device may say that it supports virtual memory management and refuse all
// the same: ProbeCapabilities (vmm/capabilities.h) tries.
//
// The driver that is returned:
// - makes each call with the device's primary context current, whatever was
//   current before and is again after it; questions about devices and the
//   thread's capture mode alone are asked without one;
// - once a call has returned a sticky result (IsStickyResult), returns that to
//   every later call, as do all other drivers of the same device while one of
//   them lives. Of the calls, those that wait or that give something back are
//   still made and their results ignored, unless the driver itself has shut
//   down; cuThreadExchangeStreamCaptureMode is the thread's affair and goes on
//   as if nothing had happened. loss() has the first cause;
// - repeats a call that manages memory while it returns kNotReady, for about a
//   millisecond at most (vmm/cuda/call_rules.h).
absl::StatusOr<std::unique_ptr<Driver>> OpenCudaDriver(
    const CudaDriverOptions& options);

// How many devices the driver in this library (as above) has: at least one.
// Unavailable as above.
absl::StatusOr<int> CountCudaDevices(const std::string& library);

}  // namespace firn

#endif  // FIRN_VMM_CUDA_CUDA_DRIVER_H_

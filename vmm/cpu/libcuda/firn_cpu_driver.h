// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the libcuda-shaped library of firn's CPU driver has beyond the CUDA
// Driver API: kernels that are host functions, and what it says about misuse.
// A C99 header that needs no cuda.h. The functions are exported, and found
// through cuGetProcAddress as well; a real driver has none of them.

#ifndef FIRN_VMM_CPU_LIBCUDA_FIRN_CPU_DRIVER_H_
#define FIRN_VMM_CPU_LIBCUDA_FIRN_CPU_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// CUstream.
struct CUstream_st;

// A range of device addresses that a kernel reads, or also writes.
typedef struct firnCpuRange {
  uint64_t address;  // CUdeviceptr
  uint64_t bytes;
  int writes;  // not 0: the kernel writes there
} firnCpuRange;

// All return a CUresult.

// Queues `kernel(argument)` on `stream` (NULL: the legacy default stream of the
// current context), to be run by a thread of the driver, which may read and
// write device addresses directly. The `range_count` ranges, copied by this
// call, are what it accesses: they are checked when the kernel starts and once
// it has ended, and they are what is known about it when accesses through
// several addresses of the same memory are compared. An access to memory that
// is not mapped or not accessible, declared or not, loses the device with
// CUDA_ERROR_ILLEGAL_ADDRESS. The kernel must make no call of the driver. With
// ghost storage the ranges are checked and the kernel is not run.
int firnCpuLaunchHostKernel(struct CUstream_st* stream,
                            void (*kernel)(void* argument), void* argument,
                            const firnCpuRange* ranges, size_t range_count);
typedef int (*firnCpuLaunchHostKernelFunction)(struct CUstream_st* stream,
                                               void (*kernel)(void* argument),
                                               void* argument,
                                               const firnCpuRange* ranges,
                                               size_t range_count);

// Writes the last report of misuse, or of the loss of a device, of any thread
// of this process to `buffer`, cut to `buffer_bytes` - 1 bytes, and a NUL;
// nothing but the NUL if there was none. A report names the call, its
// arguments, its result and the rule.
int firnCpuLastReport(char* buffer, size_t buffer_bytes);
typedef int (*firnCpuLastReportFunction)(char* buffer, size_t buffer_bytes);

// The time that the calls on virtual memory, and copies within the device, have
// cost so far on the current context's device, in microseconds of the chosen
// cost profile's clock: modelled, not measured. 0 without a profile.
int firnCpuModelledTime(double* driver_us, double* copy_us);
typedef int (*firnCpuModelledTimeFunction)(double* driver_us, double* copy_us);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // FIRN_VMM_CPU_LIBCUDA_FIRN_CPU_DRIVER_H_

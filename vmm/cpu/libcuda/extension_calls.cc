// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exported functions that no real driver has: firn_cpu_driver.h.

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/libcuda/calls.h"
#include "firn/vmm/cpu/libcuda/firn_cpu_driver.h"
#include "firn/vmm/cpu/libcuda/process.h"

namespace firn::libcuda {
namespace {

static_assert(std::is_same_v<StreamHandle, CUstream_st*>);

DriverResult LaunchHostKernel(StreamHandle stream, void (*kernel)(void*),
                              void* argument, const firnCpuRange* ranges,
                              size_t range_count) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    if (kernel == nullptr || (ranges == nullptr && range_count != 0)) {
      return DriverResult::kInvalidValue;
    }
    std::vector<KernelRange> kernel_ranges;
    kernel_ranges.reserve(range_count);
    for (size_t i = 0; i < range_count; ++i) {
      KernelRange range;
      range.address = ranges[i].address;
      range.bytes = ranges[i].bytes;
      range.writes = ranges[i].writes != 0;
      kernel_ranges.push_back(range);
    }
    return device.cpu->LaunchKernel(s, std::move(kernel_ranges),
                                    [kernel, argument] { kernel(argument); });
  });
}

DriverResult LastReport(char* buffer, size_t buffer_bytes) {
  return InProcess([&](Process& process) {
    if (buffer == nullptr || buffer_bytes == 0) {
      return DriverResult::kInvalidValue;
    }
    // That of any device is that of all.
    const std::string report = process.devices().front().cpu->last_report();
    const size_t length = std::min(report.size(), buffer_bytes - 1);
    std::memcpy(buffer, report.data(), length);
    buffer[length] = '\0';
    return DriverResult::kSuccess;
  });
}

DriverResult ModelledTime(double* driver_us, double* copy_us) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    const CountingDriver* const costs = device.costs;
    if (driver_us != nullptr) {
      *driver_us = costs != nullptr ? costs->driver_us() : 0;
    }
    if (copy_us != nullptr) *copy_us = costs != nullptr ? costs->copy_us() : 0;
    return DriverResult::kSuccess;
  });
}

}  // namespace
}  // namespace firn::libcuda

extern "C" {

#define FIRN_EXPORT __attribute__((visibility("default")))

FIRN_EXPORT int firnCpuLaunchHostKernel(CUstream_st* stream,
                                        void (*kernel)(void* argument),
                                        void* argument,
                                        const firnCpuRange* ranges,
                                        size_t range_count) {
  return static_cast<int>(firn::libcuda::LaunchHostKernel(
      stream, kernel, argument, ranges, range_count));
}

FIRN_EXPORT int firnCpuLastReport(char* buffer, size_t buffer_bytes) {
  return static_cast<int>(firn::libcuda::LastReport(buffer, buffer_bytes));
}

FIRN_EXPORT int firnCpuModelledTime(double* driver_us, double* copy_us) {
  return static_cast<int>(firn::libcuda::ModelledTime(driver_us, copy_us));
}

}  // extern "C"

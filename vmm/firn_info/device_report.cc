// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/firn_info/device_report.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cuda/cuda_driver.h"

namespace firn::info {
namespace {

DeviceReport ReportDevice(Driver* driver) {
  DeviceReport report;
  report.identity = driver->identity();
  report.ordinal = report.identity.device_ordinal;
  report.capabilities = ProbeCapabilities(driver);
  return report;
}

DeviceReport ReportCudaDevice(const std::string& library, int ordinal) {
  CudaDriverOptions options;
  options.library = library;
  options.device_ordinal = ordinal;
  const absl::StatusOr<std::unique_ptr<Driver>> driver =
      OpenCudaDriver(options);
  if (driver.ok()) return ReportDevice(driver->get());
  DeviceReport report;
  report.ordinal = ordinal;
  report.unavailable = std::string(driver.status().message());
  return report;
}

}  // namespace

DriverReport ReportCudaDriver(const std::string& library) {
  DriverReport report;
  report.name = "CUDA driver";
  const absl::StatusOr<int> count = CountCudaDevices(library);
  if (!count.ok()) {
    report.unavailable = std::string(count.status().message());
    return report;
  }
  for (int ordinal = 0; ordinal < *count; ++ordinal) {
    report.devices.push_back(ReportCudaDevice(library, ordinal));
  }
  return report;
}

DriverReport ReportCpuDriver() {
  DriverReport report;
  report.name = "CPU driver";
  const absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
      CpuDriver::Create(CpuDriverOptions());
  if (driver.ok()) {
    report.devices.push_back(ReportDevice(driver->get()));
  } else {
    report.unavailable = std::string(driver.status().message());
  }
  return report;
}

std::vector<NamedCapability> NamedCapabilities(
    const Capabilities& capabilities) {
  return {
      {"virtual memory", &capabilities.virtual_memory},
      {"stream ids", &capabilities.stream_ids},
      {"64-bit stream values", &capabilities.stream_values_64},
      {"POSIX file descriptors", &capabilities.posix_file_descriptors},
      {"RDMA", &capabilities.rdma},
      {"fabric handles", &capabilities.fabric_handles},
      {"host spill", &capabilities.host_spill},
      {"relaxed capture", &capabilities.relaxed_capture},
      {"peer access", &capabilities.peer_access},
  };
}

}  // namespace firn::info

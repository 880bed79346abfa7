// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn_info: what there is to print about the drivers of this machine.

#ifndef FIRN_VMM_FIRN_INFO_DEVICE_REPORT_H_
#define FIRN_VMM_FIRN_INFO_DEVICE_REPORT_H_

#include <string>
#include <vector>

#include "firn/vmm/capabilities.h"
#include "firn/vmm/driver.h"

namespace firn::info {

struct DeviceReport {
  int ordinal = 0;
  // Why the device cannot be used; the rest is empty then.
  std::string unavailable;
  DriverIdentity identity;
  Capabilities capabilities;
};

struct DriverReport {
  std::string name;  // "CUDA driver"
  // Why there are no devices.
  std::string unavailable;
  std::vector<DeviceReport> devices;
};

// Every device of the driver in `library` (as CudaDriverOptions has it).
DriverReport ReportCudaDriver(const std::string& library);
// The CPU driver as it is by itself.
DriverReport ReportCpuDriver();

// A capability by the name that is printed.
struct NamedCapability {
  const char* name;
  const Capability* capability;
};

// All but peers, in the order of printing. Points into `capabilities`.
std::vector<NamedCapability> NamedCapabilities(
    const Capabilities& capabilities);

}  // namespace firn::info

#endif  // FIRN_VMM_FIRN_INFO_DEVICE_REPORT_H_

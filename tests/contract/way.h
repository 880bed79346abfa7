// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The drivers that the contract suite runs on.

#ifndef FIRN_TESTS_CONTRACT_WAY_H_
#define FIRN_TESTS_CONTRACT_WAY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/cpu_defect.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver.h"

namespace firn::contract {

enum class Way {
  kCpuLazy,      // CpuDriver, Unmap and SetAccess at once
  kCpuDraining,  // CpuDriver, Unmap and SetAccess wait for all work
  kLibcuda,      // CudaDriver on the CPU driver's library, lazy
  kGpu,          // CudaDriver on libcuda.so.1
};

absl::string_view WayName(Way way);
absl::StatusOr<Way> ParseWay(absl::string_view name);

// The devices of one driver and what tests need beside them.
struct DeviceSet {
  // One or two, by ordinal.
  std::vector<std::unique_ptr<Driver>> drivers;
  // Launches `body`, which must outlive the work, on a stream of the device
  // (not the legacy stream). Empty where there are no host kernels.
  std::function<DriverResult(size_t ordinal, StreamHandle stream,
                             const std::vector<KernelRange>& ranges,
                             std::function<void()>* body)>
      launch_kernel;
  // What the driver last reported for a device. Empty where it does not say.
  std::function<std::string(size_t ordinal)> last_report;
};

// Limits of the CPU driver in the suite: low enough to be reached.
inline constexpr uint64_t kMaxHandles = 400;
inline constexpr uint64_t kMaxMappings = 200;

// Whether `way` can have fresh devices for every check.
bool OpensAfresh(Way way);

// Unavailable says why there is no such driver here.
absl::StatusOr<std::unique_ptr<DeviceSet>> OpenDevices(Way way,
                                                       CpuDefect defect);

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_WAY_H_

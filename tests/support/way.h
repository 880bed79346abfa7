// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The drivers that tests run on: one and the same test has to pass on the CPU
// driver in both of its extremes, on CudaDriver with the CPU driver's library
// beneath it, and on a GPU.

#ifndef FIRN_TESTS_SUPPORT_WAY_H_
#define FIRN_TESTS_SUPPORT_WAY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/cpu_defect.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver.h"

namespace firn::testing {

enum class Way {
  kCpuLazy,      // CpuDriver, Unmap and SetAccess at once
  kCpuDraining,  // CpuDriver, Unmap and SetAccess wait for all work
  kLibcuda,      // CudaDriver on the CPU driver's library, lazy
  kGpu,          // CudaDriver on libcuda.so.1
};

// "cpu_lazy", "cpu_draining", "libcuda", "gpu", and back.
absl::string_view WayName(Way way);
absl::StatusOr<Way> ParseWay(absl::string_view name);

// Whether each DeviceSet of `way` has devices of its own. Otherwise all sets of
// a process share them, and what is left on one is there for the next.
bool OpensAfresh(Way way);

// What is asked of the devices. A GPU is what it is: there only `device_count`
// counts, and is the most that are opened.
struct DeviceSetOptions {
  int device_count = 2;  // 1 or 2
  uint64_t device_bytes = uint64_t{64} << 20;
  uint64_t max_handles = CpuDriverOptions().max_handles;
  uint64_t max_mappings = CpuDriverOptions().max_mappings;
  CpuDefect defect = CpuDefect::kNone;  // not for the library
};

// The devices of one driver and what tests need beside them.
struct DeviceSet {
  Way way = Way::kCpuLazy;
  // One or two, by ordinal.
  std::vector<std::unique_ptr<Driver>> drivers;
  // The devices' granularity: 64 KiB without a GPU, 2 MiB on every GPU known.
  uint64_t granule_bytes = 0;
  // Launches `body`, which must outlive the work, on a stream of the device
  // (not the legacy stream). Empty where there are no host kernels.
  std::function<DriverResult(size_t ordinal, StreamHandle stream,
                             const std::vector<KernelRange>& ranges,
                             std::function<void()>* body)>
      launch_kernel;
  // What the driver last reported for a device. Empty where it does not say.
  std::function<std::string(size_t ordinal)> last_report;
};

// Unavailable says why there is no such driver here. The library takes its
// settings once in a process: FailedPrecondition if others were asked for
// before (device_count may differ).
absl::StatusOr<std::unique_ptr<DeviceSet>> OpenDevices(
    Way way, const DeviceSetOptions& options);

// --- What the environment says ---

// The way named by FIRN_TEST_WAY; cpu_lazy if that is not set. An unknown name
// ends the process, saying so.
Way TestWay();

// Devices of TestWay(), as DeviceSetOptions has them by itself. Way gpu opens
// the library named by FIRN_TEST_LIBRARY where that is set, so that what is
// meant for a GPU can be tried without one.
absl::StatusOr<std::unique_ptr<DeviceSet>> OpenTestDevices();

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_WAY_H_

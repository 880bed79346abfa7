// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A CPU driver beside the device: whatever is tried on the device is tried on
// it too, so that the two can be compared.

#ifndef FIRN_TESTS_GPU_CPU_TWIN_H_
#define FIRN_TESTS_GPU_CPU_TWIN_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "tests/gpu/scene.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {

class CpuTwin {
 public:
  static absl::StatusOr<CpuTwin> Create(const Scene& device) {
    CpuDriverOptions options;
    options.granularity_bytes = device.granule_bytes();
    options.device_bytes = 32 * device.granule_bytes();
    options.report = [](absl::string_view) {};
    FIRN_TRY_ASSIGN(std::unique_ptr<CpuDriver> driver,
                    CpuDriver::Create(std::move(options)));
    return CpuTwin(std::move(driver), device.granule_bytes());
  }

  const Scene& scene() const { return scene_; }

 private:
  CpuTwin(std::unique_ptr<CpuDriver> driver, uint64_t granule_bytes)
      : driver_(std::move(driver)), scene_(driver_.get(), 0, granule_bytes) {}

  std::unique_ptr<CpuDriver> driver_;
  Scene scene_;
};

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_CPU_TWIN_H_

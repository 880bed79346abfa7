// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/driver_choice.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cuda/cuda_driver.h"

namespace firn {
namespace {

absl::StatusOr<DriverChoice> ChooseCpu(std::string reason) {
  absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
      CpuDriver::Create(CpuDriverOptions());
  if (!driver.ok()) return driver.status();
  DriverChoice choice;
  choice.driver = std::move(*driver);
  choice.reason = std::move(reason);
  return choice;
}

}  // namespace

absl::StatusOr<DriverChoice> ChooseDriver(int device_ordinal) {
  const char* variable = std::getenv("FIRN_DRIVER");
  const absl::string_view by_hand = variable == nullptr ? "" : variable;
  if (!by_hand.empty() && by_hand != "cuda" && by_hand != "cpu") {
    return absl::InvalidArgumentError(absl::StrCat(
        "FIRN_DRIVER=", by_hand, ": use cuda or cpu, or leave it unset"));
  }
  if (by_hand == "cpu") {
    return ChooseCpu("CPU driver, asked for by FIRN_DRIVER=cpu");
  }
  CudaDriverOptions options;
  options.device_ordinal = device_ordinal;
  // Without it, a pool is made that does not move.
  options.needs_virtual_memory = false;
  absl::StatusOr<std::unique_ptr<Driver>> cuda = OpenCudaDriver(options);
  if (cuda.ok()) {
    DriverChoice choice;
    choice.driver = std::move(*cuda);
    choice.reason = absl::StrCat("CUDA device ", device_ordinal, " is usable");
    return choice;
  }
  if (by_hand == "cuda") {
    return absl::UnavailableError(
        absl::StrCat("FIRN_DRIVER=cuda: ", cuda.status().message()));
  }
  return ChooseCpu(absl::StrCat("CPU driver, as CUDA device ", device_ordinal,
                                " is not usable: ", cuda.status().message()));
}

}  // namespace firn

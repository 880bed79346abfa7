// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/part_process.h"

#include <fcntl.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "firn/vmm/cuda/cuda_driver.h"
#include "tests/contract/suite.h"
#include "tests/gpu/host_kernels.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/parts.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

Outcome ToOutcome(contract::Outcome outcome) {
  switch (outcome) {
    case contract::Outcome::kPassed:
      return Outcome::kPassed;
    case contract::Outcome::kSkipped:
      return Outcome::kSkipped;
    case contract::Outcome::kFailed:
      break;
  }
  return Outcome::kFailed;
}

Outcome ToOutcome(const absl::Status& status) {
  if (status.ok()) return Outcome::kPassed;
  return IsNotPossible(status) ? Outcome::kSkipped : Outcome::kFailed;
}

int RunContract(const Options& options, Report& report) {
  contract::SuiteRun run;
  run.way = contract::Way::kGpu;
  run.first = options.first_step;
  run.begins = [&report](size_t index, const contract::Check& check) {
    report.BeginStep(index, check.name);
  };
  run.ends = [&report](const contract::Check& check,
                       contract::Outcome outcome) {
    report.End(check.name, ToOutcome(outcome));
  };
  const absl::Status opened = contract::RunSuite(run);
  if (!opened.ok()) {
    report.End(kContractGroup, Outcome::kFailed, opened.message());
  }
  report.Done();
  return kExitPassed;
}

struct OpenDevice {
  std::unique_ptr<Driver> driver;
  uint64_t granule_bytes = 0;
};

absl::StatusOr<OpenDevice> Open(const Options& options) {
  CudaDriverOptions driver_options;
  driver_options.device_ordinal = options.device;
  driver_options.library = options.library;
  OpenDevice device;
  FIRN_TRY_ASSIGN(device.driver, OpenCudaDriver(driver_options));
  const AllocationProp prop =
      Scene(device.driver.get(), options.device, 0).Prop();
  size_t granule_bytes = 0;
  FIRN_TRY_CALL("cuMemGetAllocationGranularity",
                device.driver->MemGetAllocationGranularity(
                    &granule_bytes, &prop, GranularityKind::kMinimum));
  device.granule_bytes = granule_bytes;
  return device;
}

DeviceFacts Describe(const Options& options, const OpenDevice& device) {
  const DriverIdentity identity = device.driver->identity();
  DeviceFacts facts;
  facts.name = identity.device_name;
  facts.ordinal = identity.device_ordinal;
  facts.driver_version = identity.driver_version;
  facts.is_gpu = FindHostKernelLauncher(options.library) == nullptr;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  (void)device.driver->MemGetInfo(&free_bytes, &total_bytes);
  facts.memory_bytes = static_cast<double>(total_bytes);
  facts.granule_bytes = static_cast<double>(device.granule_bytes);
  return facts;
}

int Measure(const Options& options, const Part& part, Report& report) {
  const Deadline deadline(absl::Seconds(options.limit_s));
  const absl::StatusOr<OpenDevice> device = Open(options);
  if (!device.ok()) {
    // Only where nothing was opened yet may there be no device.
    const bool none = absl::IsUnavailable(device.status()) &&
                      part.name == absl::string_view(kDevicePart);
    report.End(part.name, none ? Outcome::kSkipped : Outcome::kFailed,
               device.status().message());
    report.Done();
    return kExitPassed;
  }
  if (part.name == absl::string_view(kDevicePart)) {
    report.Device(Describe(options, *device));
  }
  const Scene scene(device->driver.get(), options.device,
                    device->granule_bytes);
  MeasureContext context{scene, options.library, report, deadline,
                         options.first_step};
  const absl::Status status = part.measure(context);
  if (context.continues) return kExitPassed;
  report.End(part.name, ToOutcome(status), status.message());
  report.Done();
  return kExitPassed;
}

}  // namespace

int RunPartProcess(const Options& options, int argc, char** argv) {
  // Lines are read as they come.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  fcntl(options.report_fd, F_SETFD, FD_CLOEXEC);
  Report report(options.report_fd);
  const Part* const part = FindPart(options.part);
  if (part->measure != nullptr) return Measure(options, *part, report);
  if (part->group == absl::string_view(kContractGroup)) {
    return RunContract(options, report);
  }
  return RunTests(argc, argv, &report);
}

}  // namespace firn::gpu_check

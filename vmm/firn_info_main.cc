// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn_info: prints what firn finds on this machine. A driver that cannot be
// used is an answer, not a failure.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cuda/cuda_driver.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_status.h"

namespace {

constexpr char kUsage[] =
    "usage: firn_info [--help]\n"
    "\n"
    "Prints the drivers that firn can use on this machine: CUDA device 0, or\n"
    "why it is unavailable, and the CPU driver.\n";

constexpr int kExitBadFlag = 2;

void PrintLine(absl::string_view label, absl::string_view value) {
  std::printf("  %-26s%s\n", std::string(label).c_str(),
              std::string(value).c_str());
}

// In the largest unit of at least one, e.g. "2 MiB" or "139.8 GiB".
std::string BytesString(uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  constexpr int kUnitCount = sizeof(kUnits) / sizeof(kUnits[0]);
  int unit = 0;
  while (unit + 1 < kUnitCount && bytes >> (10 * (unit + 1)) != 0) ++unit;
  const uint64_t unit_bytes = uint64_t{1} << (10 * unit);
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f %s", bytes % unit_bytes == 0 ? 0 : 1,
                static_cast<double>(bytes) / static_cast<double>(unit_bytes),
                kUnits[unit]);
  return text;
}

std::string GranularityString(firn::Driver& driver,
                              firn::GranularityKind kind) {
  firn::AllocationProp prop;
  prop.type = firn::AllocationType::kPinned;
  prop.location.type = firn::LocationType::kDevice;
  prop.location.id = driver.identity().device_ordinal;
  size_t granularity_bytes = 0;
  const firn::DriverResult result =
      driver.MemGetAllocationGranularity(&granularity_bytes, &prop, kind);
  if (result != firn::DriverResult::kSuccess) {
    return std::string(firn::DriverResultName(result));
  }
  return BytesString(granularity_bytes);
}

void PrintDriver(firn::Driver& driver) {
  const firn::DriverIdentity identity = driver.identity();
  PrintLine("device", absl::StrCat(identity.device_ordinal, " (",
                                   identity.device_name, ")"));
  PrintLine("driver version",
            absl::StrCat(identity.driver_version / 1000, ".",
                         identity.driver_version % 1000 / 10));
  PrintLine("minimum granularity",
            GranularityString(driver, firn::GranularityKind::kMinimum));
  PrintLine("recommended granularity",
            GranularityString(driver, firn::GranularityKind::kRecommended));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const firn::DriverResult result =
      driver.MemGetInfo(&free_bytes, &total_bytes);
  PrintLine("memory", result == firn::DriverResult::kSuccess
                          ? absl::StrCat(BytesString(free_bytes), " free of ",
                                         BytesString(total_bytes))
                          : std::string(firn::DriverResultName(result)));
}

void PrintUnavailable(const absl::Status& status) {
  PrintLine("unavailable", status.message());
}

void PrintCudaDriver() {
  std::printf("CUDA driver\n");
  const absl::StatusOr<std::unique_ptr<firn::Driver>> driver =
      firn::OpenCudaDriver(firn::CudaDriverOptions());
  if (!driver.ok()) return PrintUnavailable(driver.status());
  PrintDriver(**driver);
}

void PrintCpuDriver() {
  std::printf("CPU driver\n");
  const absl::StatusOr<std::unique_ptr<firn::CpuDriver>> driver =
      firn::CpuDriver::Create(firn::CpuDriverOptions());
  if (!driver.ok()) return PrintUnavailable(driver.status());
  PrintDriver(**driver);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (absl::string_view(argv[i]) == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
  }
  if (argc > 1) {
    std::fprintf(stderr, "firn_info: unknown flag '%s' (see --help)\n",
                 argv[1]);
    return kExitBadFlag;
  }
  PrintCudaDriver();
  PrintCpuDriver();
  return 0;
}

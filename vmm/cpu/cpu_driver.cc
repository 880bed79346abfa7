// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/cpu_driver.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/backing.h"
#include "firn/vmm/cpu/cpu_device.h"
#include "firn/vmm/cpu/cpu_system.h"
#include "firn/vmm/cpu/host_memory.h"

namespace firn {
namespace {

constexpr uint64_t kGhostDeviceBytes = uint64_t{80} << 30;
// The books count granules of one device in 32 bits.
constexpr uint64_t kMaxDeviceGranules = uint64_t{1} << 32;

template <typename Value>
absl::Status BadOption(absl::string_view name, const Value& value,
                       absl::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat("CpuDriverOptions::", name, " is ", value, ": ", rule));
}

absl::Status CheckOptions(const CpuDriverOptions& options) {
  const uint64_t granularity_bytes = options.granularity_bytes;
  if (granularity_bytes == 0 ||
      (granularity_bytes & (granularity_bytes - 1)) != 0 ||
      granularity_bytes % cpu::HostPageBytes() != 0) {
    return BadOption("granularity_bytes", granularity_bytes,
                     "it must be a power of two and a multiple of the host's "
                     "page size");
  }
  if (options.device_count < 1 || options.device_count > kMaxCpuDevices) {
    return BadOption("device_count", options.device_count,
                     absl::StrCat("it must be 1 to ", kMaxCpuDevices));
  }
  if (options.max_handles == 0) {
    return BadOption("max_handles", options.max_handles, "it must be positive");
  }
  if (options.max_mappings == 0) {
    return BadOption("max_mappings", options.max_mappings,
                     "it must be positive");
  }
  if (options.deadlock_timeout <= absl::ZeroDuration()) {
    return BadOption("deadlock_timeout",
                     absl::FormatDuration(options.deadlock_timeout),
                     "it must be positive");
  }
  if (options.parked_timeout <= absl::ZeroDuration()) {
    return BadOption("parked_timeout",
                     absl::FormatDuration(options.parked_timeout),
                     "it must be positive");
  }
  return absl::OkStatus();
}

// What each device has.
absl::StatusOr<uint64_t> DeviceBytes(const CpuDriverOptions& options) {
  if (options.device_bytes != 0) return options.device_bytes;
  if (options.storage == CpuStorage::kGhost) return kGhostDeviceBytes;
  const auto devices = static_cast<uint64_t>(options.device_count);
  const uint64_t available_bytes = cpu::HostAvailableBytes();
  if (available_bytes <
      cpu::kHostReserveBytes + devices * options.granularity_bytes) {
    return absl::ResourceExhaustedError(
        "the host has no memory to spare for a device");
  }
  return (available_bytes - cpu::kHostReserveBytes) / devices;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuDriver>> CpuDriver::Create(
    CpuDriverOptions options) {
  if (options.device_count != 1) {
    return BadOption("device_count", options.device_count,
                     "it must be 1 here; CreateDevices makes several");
  }
  auto devices = CreateDevices(std::move(options));
  if (!devices.ok()) return devices.status();
  return std::move(devices->front());
}

absl::StatusOr<std::vector<std::unique_ptr<CpuDriver>>>
CpuDriver::CreateDevices(CpuDriverOptions options) {
  const absl::Status checked = CheckOptions(options);
  if (!checked.ok()) return checked;
  const uint64_t granularity_bytes = options.granularity_bytes;
  const absl::StatusOr<uint64_t> device_bytes = DeviceBytes(options);
  if (!device_bytes.ok()) return device_bytes.status();
  const uint64_t device_granules = *device_bytes / granularity_bytes;
  if (device_granules == 0 || device_granules > kMaxDeviceGranules) {
    return BadOption(
        "device_bytes", *device_bytes,
        absl::StrCat("it must be at least one granule of ", granularity_bytes,
                     " bytes and at most ", kMaxDeviceGranules, " granules"));
  }
  std::unique_ptr<cpu::Backing> backing;
  if (options.storage == CpuStorage::kReal) {
    const bool poison =
        options.poison && options.defect != CpuDefect::kPoisonSkipped;
    auto created = cpu::Backing::Create(granularity_bytes, poison);
    if (!created.ok()) return created.status();
    backing = *std::move(created);
  }
  const int device_count = options.device_count;
  const auto system = std::make_shared<cpu::CpuSystem>(
      std::move(options), device_granules, std::move(backing));
  std::vector<std::unique_ptr<CpuDriver>> devices;
  for (int ordinal = 0; ordinal < device_count; ++ordinal) {
    devices.push_back(std::make_unique<cpu::CpuDevice>(
        system, cpu::StreamContext{ordinal, ordinal}));
  }
  return devices;
}

}  // namespace firn

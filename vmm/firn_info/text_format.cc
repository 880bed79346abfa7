// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/firn_info/report_format.h"

namespace firn::info {
namespace {

void AddLine(absl::string_view label, absl::string_view value,
             std::string* text) {
  absl::StrAppendFormat(text, "  %-31s%s\n", label, value);
}

// In the largest unit of at least one, e.g. "2 MiB" or "139.8 GiB".
std::string BytesString(uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  constexpr int kUnitCount = sizeof(kUnits) / sizeof(kUnits[0]);
  int unit = 0;
  while (unit + 1 < kUnitCount && bytes >> (10 * (unit + 1)) != 0) ++unit;
  const uint64_t unit_bytes = uint64_t{1} << (10 * unit);
  return absl::StrFormat(
      "%.*f %s", bytes % unit_bytes == 0 ? 0 : 1,
      static_cast<double>(bytes) / static_cast<double>(unit_bytes),
      kUnits[unit]);
}

// What the driver does not say is 0.
std::string KnownBytesString(uint64_t bytes, absl::string_view reason) {
  return bytes != 0 ? BytesString(bytes)
                    : absl::StrCat("unknown (", reason, ")");
}

void AddGranularity(absl::string_view of, const Granularity& granularity,
                    std::string* text) {
  AddLine(absl::StrCat("minimum granularity", of),
          KnownBytesString(granularity.minimum_bytes, granularity.reason),
          text);
  AddLine(absl::StrCat("recommended granularity", of),
          KnownBytesString(granularity.recommended_bytes, granularity.reason),
          text);
}

void AddCapability(absl::string_view name, const Capability& capability,
                   std::string* text) {
  AddLine(name,
          absl::StrCat(capability.available ? "yes (" : "no (",
                       capability.reason, ")"),
          text);
}

void AddDevice(const DeviceReport& device, std::string* text) {
  if (!device.unavailable.empty()) {
    AddLine("device", absl::StrCat(device.ordinal), text);
    AddLine("unavailable", device.unavailable, text);
    return;
  }
  const Capabilities& found = device.capabilities;
  const int version = device.identity.driver_version;
  AddLine("device",
          absl::StrCat(device.ordinal, " (", device.identity.device_name, ")"),
          text);
  AddLine("driver version",
          absl::StrCat(version / 1000, ".", version % 1000 / 10), text);
  AddGranularity("", found.movable_granularity, text);
  if (found.host_spill.available) {
    AddGranularity(", host", found.host_granularity, text);
  }
  AddLine("memory",
          found.memory.total_bytes != 0
              ? absl::StrCat(BytesString(found.memory.free_bytes), " free of ",
                             BytesString(found.memory.total_bytes))
              : absl::StrCat("unknown (", found.memory.reason, ")"),
          text);
  for (const NamedCapability& named : NamedCapabilities(found)) {
    AddCapability(named.name, *named.capability, text);
  }
  for (const Peer& peer : found.peers) {
    AddCapability(absl::StrCat("access to device ", peer.ordinal), peer.access,
                  text);
  }
}

}  // namespace

std::string FormatText(const std::vector<DriverReport>& drivers) {
  std::string text;
  for (const DriverReport& driver : drivers) {
    absl::StrAppend(&text, driver.name, "\n");
    if (!driver.unavailable.empty()) {
      AddLine("unavailable", driver.unavailable, &text);
    }
    for (const DeviceReport& device : driver.devices) AddDevice(device, &text);
  }
  return text;
}

}  // namespace firn::info

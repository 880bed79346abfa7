// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/firn_info/report_format.h"

namespace firn::info {
namespace {

std::string Quoted(absl::string_view value) {
  std::string json = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&json, "\\", absl::string_view(&c, 1));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&json, "\\u%04x", static_cast<unsigned>(c));
    } else {
      json.push_back(c);
    }
  }
  json.push_back('"');
  return json;
}

// `value` is JSON.
std::string Member(absl::string_view key, absl::string_view value) {
  return absl::StrCat(Quoted(key), ": ", value);
}

std::string Object(const std::vector<std::string>& members) {
  return absl::StrCat("{", absl::StrJoin(members, ", "), "}");
}

std::string Array(const std::vector<std::string>& elements) {
  return absl::StrCat("[", absl::StrJoin(elements, ", "), "]");
}

std::string CapabilityJson(const Capability& capability) {
  return Object({Member("available", capability.available ? "true" : "false"),
                 Member("reason", Quoted(capability.reason))});
}

std::string GranularityJson(const Granularity& granularity) {
  return Object(
      {Member("minimum_bytes", absl::StrCat(granularity.minimum_bytes)),
       Member("recommended_bytes", absl::StrCat(granularity.recommended_bytes)),
       Member("reason", Quoted(granularity.reason))});
}

std::string MemoryJson(const MemoryAmount& memory) {
  return Object({Member("free_bytes", absl::StrCat(memory.free_bytes)),
                 Member("total_bytes", absl::StrCat(memory.total_bytes)),
                 Member("reason", Quoted(memory.reason))});
}

std::string PeerJson(const Peer& peer) {
  return Object({Member("ordinal", absl::StrCat(peer.ordinal)),
                 Member("access", CapabilityJson(peer.access))});
}

std::string DeviceJson(const DeviceReport& device) {
  std::vector<std::string> members = {
      Member("ordinal", absl::StrCat(device.ordinal))};
  if (!device.unavailable.empty()) {
    members.push_back(Member("unavailable", Quoted(device.unavailable)));
    return Object(members);
  }
  const Capabilities& found = device.capabilities;
  std::vector<std::string> capabilities;
  for (const NamedCapability& named : NamedCapabilities(found)) {
    capabilities.push_back(
        Member(named.name, CapabilityJson(*named.capability)));
  }
  std::vector<std::string> peers;
  for (const Peer& peer : found.peers) peers.push_back(PeerJson(peer));
  members.push_back(Member("name", Quoted(device.identity.device_name)));
  members.push_back(
      Member("driver_version", absl::StrCat(device.identity.driver_version)));
  members.push_back(
      Member("granularity", GranularityJson(found.movable_granularity)));
  members.push_back(
      Member("host_granularity", GranularityJson(found.host_granularity)));
  members.push_back(Member("memory", MemoryJson(found.memory)));
  members.push_back(Member("capabilities", Object(capabilities)));
  members.push_back(Member("peers", Array(peers)));
  return Object(members);
}

std::string DriverJson(const DriverReport& driver) {
  std::vector<std::string> members = {Member("name", Quoted(driver.name))};
  if (!driver.unavailable.empty()) {
    members.push_back(Member("unavailable", Quoted(driver.unavailable)));
  }
  std::vector<std::string> devices;
  for (const DeviceReport& device : driver.devices) {
    devices.push_back(DeviceJson(device));
  }
  members.push_back(Member("devices", Array(devices)));
  return Object(members);
}

}  // namespace

std::string FormatJson(const std::vector<DriverReport>& drivers) {
  std::vector<std::string> formatted;
  for (const DriverReport& driver : drivers) {
    formatted.push_back(DriverJson(driver));
  }
  return absl::StrCat(Object({Member("drivers", Array(formatted))}), "\n");
}

}  // namespace firn::info

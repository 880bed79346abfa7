// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/capabilities.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/memory_trial.h"
#include "firn/vmm/relaxed_capture.h"
#include "firn/vmm/stream_trial.h"

namespace firn {
namespace {

// Older drivers fail to create memory of a node unless every device has a
// context.
constexpr int32_t kFirstVersionWithHostNuma = 12040;

Capability Yes(std::string reason) { return {true, std::move(reason)}; }
Capability No(std::string reason) { return {false, std::move(reason)}; }

std::string AttributeName(DeviceAttribute attribute) {
  return absl::StrCat("attribute ", static_cast<int32_t>(attribute),
                      " of the device");
}

bool Includes(ShareableHandleType types, ShareableHandleType type) {
  return (static_cast<int32_t>(types) & static_cast<int32_t>(type)) != 0;
}

// Available if the attribute is not 0. Notes what was refused.
Capability AskAttribute(Driver* driver, DeviceAttribute attribute,
                        DriverResult* refusal = nullptr) {
  int32_t value = 0;
  const DriverResult result = driver->DeviceGetAttribute(&value, attribute);
  if (refusal != nullptr) *refusal = result;
  if (result != DriverResult::kSuccess) {
    return No(RefusalOf(DriverCall::kDeviceGetAttribute, result,
                        AttributeName(attribute)));
  }
  return {value != 0, absl::StrCat(AttributeName(attribute), " is ", value)};
}

// What a trial adds to a promise.
Capability Confirmed(const Capability& promise) {
  return Yes(absl::StrCat(promise.reason, ", and a trial succeeded"));
}

// Notes what was refused; leaves `refusal` alone without a promise.
Capability TryMapping(Driver* driver, const AllocationProp& prop,
                      const Capability& promise,
                      DriverResult* refusal = nullptr) {
  if (!promise.available) return promise;
  MemoryTrial trial(driver, prop);
  const bool mapped =
      trial.Reserve() && trial.Create() && trial.MapWithAccess();
  const bool given_back = trial.GiveBack();
  if (refusal != nullptr) *refusal = trial.refused_with();
  // The refusal that came first tells, not the others.
  if (!given_back || !mapped) return No(trial.refusal());
  return Confirmed(promise);
}

Capability TryCreation(Driver* driver, const AllocationProp& prop,
                       const Capability& promise) {
  if (!promise.available) return promise;
  MemoryTrial trial(driver, prop);
  const bool created = trial.Create();
  if (!trial.GiveBack() || !created) return No(trial.refusal());
  return Confirmed(promise);
}

Capability TryStreamValue(Driver* driver, StreamTrial* stream,
                          const AllocationProp& prop,
                          const Capability& promise) {
  if (!promise.available) return promise;
  MemoryTrial trial(driver, prop);
  if (!trial.Reserve() || !trial.Create() || !trial.MapWithAccess()) {
    return No(trial.refusal());
  }
  const std::string refusal = stream->WriteValue64(&trial);
  if (!refusal.empty()) return No(refusal);
  return trial.GiveBack() ? Confirmed(promise) : No(trial.refusal());
}

Capability ProbeHostNuma(Driver* driver, MemLocation* location) {
  const Capability promise =
      AskAttribute(driver, DeviceAttribute::kHostNumaVirtualMemoryManagement);
  if (!promise.available) return promise;
  const int32_t version = driver->identity().driver_version;
  if (version < kFirstVersionWithHostNuma) {
    return No(absl::StrCat("the driver is of CUDA ", version / 1000, ".",
                           version % 1000 / 10,
                           ", and 12.4 is the first to do it right"));
  }
  int32_t node = 0;
  const DriverResult result =
      driver->DeviceGetAttribute(&node, DeviceAttribute::kHostNumaId);
  if (result != DriverResult::kSuccess) {
    return No(RefusalOf(DriverCall::kDeviceGetAttribute, result,
                        AttributeName(DeviceAttribute::kHostNumaId)));
  }
  // -1: a system without nodes, where the one there is has the number 0.
  *location = {LocationType::kHostNuma, node < 0 ? 0 : node};
  return TryMapping(driver, HostProp(*location), promise);
}

Capability ProbePeer(Driver* driver, int32_t ordinal) {
  int32_t can_access = 0;
  const DriverResult result = driver->DeviceCanAccessPeer(&can_access, ordinal);
  if (result != DriverResult::kSuccess) {
    return No(RefusalOf(DriverCall::kDeviceCanAccessPeer, result));
  }
  return {can_access != 0, can_access != 0
                               ? "cuDeviceCanAccessPeer says so"
                               : "cuDeviceCanAccessPeer says it cannot"};
}

Capability ProbePeers(Driver* driver, std::vector<Peer>* peers) {
  int32_t count = 0;
  const DriverResult result = driver->DeviceGetCount(&count);
  if (result != DriverResult::kSuccess) {
    return No(RefusalOf(DriverCall::kDeviceGetCount, result));
  }
  int32_t accessible = 0;
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    if (ordinal == driver->identity().device_ordinal) continue;
    peers->push_back({ordinal, ProbePeer(driver, ordinal)});
    if (peers->back().access.available) ++accessible;
  }
  if (peers->empty()) return No("there is no other device");
  return {accessible > 0,
          absl::StrCat(accessible, " of ", peers->size(), " other devices")};
}

Granularity ProbeGranularity(Driver* driver, const AllocationProp& prop) {
  Granularity granularity;
  granularity.reason = "the driver says so";
  const std::pair<GranularityKind, uint64_t*> questions[] = {
      {GranularityKind::kMinimum, &granularity.minimum_bytes},
      {GranularityKind::kRecommended, &granularity.recommended_bytes}};
  for (const auto& [kind, answer] : questions) {
    size_t bytes = 0;
    const DriverResult result =
        driver->MemGetAllocationGranularity(&bytes, &prop, kind);
    if (result == DriverResult::kSuccess) {
      *answer = bytes;
    } else {
      granularity.reason =
          RefusalOf(DriverCall::kMemGetAllocationGranularity, result);
    }
  }
  return granularity;
}

MemoryAmount ProbeMemory(Driver* driver) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const DriverResult result = driver->MemGetInfo(&free_bytes, &total_bytes);
  if (result != DriverResult::kSuccess) {
    return {0, 0, RefusalOf(DriverCall::kMemGetInfo, result)};
  }
  return {free_bytes, total_bytes, "the driver says so"};
}

Capability ProbeRelaxedCapture(const ScopedRelaxedCapture& scope) {
  return scope.result() == DriverResult::kSuccess
             ? Yes("this thread was given that mode")
             : No(std::string(scope.status().message()));
}

// All that is done with memory that is created and mapped.
void ProbeMappedMemory(Driver* driver, StreamTrial* stream,
                       Capabilities* found) {
  const int32_t ordinal = driver->identity().device_ordinal;
  const AllocationProp movable = MovableProp(ordinal);
  DriverResult refusal = DriverResult::kSuccess;
  found->virtual_memory = ProbeVirtualMemory(driver, &refusal);
  if (!found->virtual_memory.available) {
    const Capability none = No("there is no virtual memory management");
    found->stream_values_64 = none;
    found->posix_file_descriptors = none;
    found->rdma = none;
    found->fabric_handles = none;
    found->host_spill = none;
    return;
  }
  found->stream_values_64 =
      TryStreamValue(driver, stream, movable,
                     AskAttribute(driver, DeviceAttribute::k64BitStreamMemOps));
  found->posix_file_descriptors = TryCreation(
      driver,
      ExportableProp(ordinal, ShareableHandleType::kPosixFileDescriptor, false),
      AskAttribute(driver, DeviceAttribute::kPosixFileDescriptorHandles));
  found->rdma = TryCreation(
      driver, ExportableProp(ordinal, ShareableHandleType::kNone, true),
      AskAttribute(driver, DeviceAttribute::kGpuDirectRdmaWithVmm));
  found->fabric_handles = TryCreation(
      driver, ExportableProp(ordinal, ShareableHandleType::kFabric, false),
      AskAttribute(driver, DeviceAttribute::kFabricHandles));
  found->host_spill = ProbeHostSpill(driver, &found->host_location);
}

}  // namespace

Capability ProbeVirtualMemory(Driver* driver, DriverResult* refusal) {
  const Capability promise =
      AskAttribute(driver, DeviceAttribute::kVirtualMemoryManagement, refusal);
  return TryMapping(driver, MovableProp(driver->identity().device_ordinal),
                    promise, refusal);
}

Capability ProbeHostSpill(Driver* driver, MemLocation* location) {
  *location = {LocationType::kHost, 0};
  const Capability host = TryMapping(
      driver, HostProp(*location),
      AskAttribute(driver, DeviceAttribute::kHostVirtualMemoryManagement));
  if (host.available) {
    return Yes(absl::StrCat("memory of the host: ", host.reason));
  }
  const Capability node = ProbeHostNuma(driver, location);
  if (node.available) {
    return Yes(absl::StrCat("memory of NUMA node ", location->id, ": ",
                            node.reason,
                            " (of the host at large: ", host.reason, ")"));
  }
  *location = MemLocation();
  return No(absl::StrCat("of the host at large: ", host.reason,
                         "; of a NUMA node: ", node.reason));
}

Capability ProbeExportable(Driver* driver, ShareableHandleType types,
                           bool rdma_capable) {
  const std::pair<bool, DeviceAttribute> needs[] = {
      {Includes(types, ShareableHandleType::kPosixFileDescriptor),
       DeviceAttribute::kPosixFileDescriptorHandles},
      {Includes(types, ShareableHandleType::kFabric),
       DeviceAttribute::kFabricHandles},
      {rdma_capable, DeviceAttribute::kGpuDirectRdmaWithVmm}};
  Capability promise = Yes("nothing special is asked of the memory");
  for (const auto& [is_needed, attribute] : needs) {
    if (!is_needed) continue;
    promise = AskAttribute(driver, attribute);
    if (!promise.available) return promise;
  }
  return TryCreation(
      driver,
      ExportableProp(driver->identity().device_ordinal, types, rdma_capable),
      promise);
}

Capabilities ProbeCapabilities(Driver* driver) {
  Capabilities found;
  const ScopedRelaxedCapture relaxed(driver);
  found.relaxed_capture = ProbeRelaxedCapture(relaxed);
  StreamTrial stream(driver);
  std::string id_refusal = stream.GetId();
  ProbeMappedMemory(driver, &stream, &found);
  const std::string end_refusal = stream.Destroy();
  if (id_refusal.empty()) id_refusal = end_refusal;
  found.stream_ids =
      id_refusal.empty() ? Yes("a new stream has one") : No(id_refusal);
  found.peer_access = ProbePeers(driver, &found.peers);
  found.movable_granularity =
      ProbeGranularity(driver, MovableProp(driver->identity().device_ordinal));
  if (found.host_spill.available) {
    found.host_granularity =
        ProbeGranularity(driver, HostProp(found.host_location));
  } else {
    found.host_granularity.reason = "no memory of the host can be used";
  }
  found.memory = ProbeMemory(driver);
  return found;
}

}  // namespace firn

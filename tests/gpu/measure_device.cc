// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the device says of itself: attributes, granularities.

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "device";

void AddAttributes(MeasureContext& context) {
  struct Named {
    const char* name;
    DeviceAttribute attribute;
  };
  constexpr Named kAttributes[] = {
      {"compute capability, major", DeviceAttribute::kComputeCapabilityMajor},
      {"compute capability, minor", DeviceAttribute::kComputeCapabilityMinor},
      {"unified addressing", DeviceAttribute::kUnifiedAddressing},
      {"virtual memory management", DeviceAttribute::kVirtualMemoryManagement},
      {"POSIX file descriptor handles",
       DeviceAttribute::kPosixFileDescriptorHandles},
      {"fabric handles", DeviceAttribute::kFabricHandles},
      {"GPUDirect RDMA with VMM", DeviceAttribute::kGpuDirectRdmaWithVmm},
      {"64-bit stream memory operations", DeviceAttribute::k64BitStreamMemOps},
      {"wait for NOR of a value", DeviceAttribute::kStreamWaitValueNor},
      {"host NUMA id", DeviceAttribute::kHostNumaId},
      {"VMM on a host NUMA node",
       DeviceAttribute::kHostNumaVirtualMemoryManagement},
      {"VMM on the host", DeviceAttribute::kHostVirtualMemoryManagement},
  };
  for (const Named& each : kAttributes) {
    int32_t value = 0;
    const DriverResult result =
        context.driver().DeviceGetAttribute(&value, each.attribute);
    context.report.AddRow(kTable, {TextCell(each.name),
                                   result == DriverResult::kSuccess
                                       ? NumberCell(value)
                                       : TextCell(DriverResultName(result))});
  }
}

void AddGranularities(MeasureContext& context) {
  struct Named {
    const char* name;
    MemLocation location;
  };
  const Named locations[] = {
      {"device", context.scene.Location()},
      {"host", {LocationType::kHost, 0}},
      {"host NUMA node 0", {LocationType::kHostNuma, 0}},
  };
  for (const Named& each : locations) {
    for (const GranularityKind kind :
         {GranularityKind::kMinimum, GranularityKind::kRecommended}) {
      const AllocationProp prop = context.scene.PropAt(each.location);
      size_t bytes = 0;
      const DriverResult result =
          context.driver().MemGetAllocationGranularity(&bytes, &prop, kind);
      const bool minimum = kind == GranularityKind::kMinimum;
      context.report.AddRow(
          kTable,
          {TextCell(absl::StrCat(minimum ? "least" : "recommended",
                                 " granularity, ", each.name, ", bytes")),
           result == DriverResult::kSuccess
               ? NumberCell(bytes)
               : TextCell(DriverResultName(result))});
    }
  }
}

}  // namespace

absl::Status MeasureDevice(MeasureContext& context) {
  context.report.BeginTable(
      {kTable, "what the device says of itself", {"property", "value"}, {}});
  int32_t count = 0;
  FIRN_TRY_CALL("cuDeviceGetCount", context.driver().DeviceGetCount(&count));
  context.report.AddRow(kTable, {TextCell("devices"), NumberCell(count)});
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  FIRN_TRY_CALL("cuMemGetInfo",
                context.driver().MemGetInfo(&free_bytes, &total_bytes));
  context.report.AddRow(kTable,
                        {TextCell("free bytes"), NumberCell(free_bytes)});
  context.report.AddRow(kTable,
                        {TextCell("total bytes"), NumberCell(total_bytes)});
  AddAttributes(context);
  AddGranularities(context);
  return absl::OkStatus();
}

}  // namespace firn::gpu_check

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/driver_call.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace firn {
namespace {

struct CallNames {
  absl::string_view call;
  absl::string_view parameters;
};

// In the order of DriverCall.
constexpr std::array<CallNames, kDriverCallCount> kCallNames = {{
    {"cuDeviceGetCount", "count"},
    {"cuDeviceGetAttribute", "value, attribute"},
    {"cuDeviceCanAccessPeer", "can_access, peer"},
    {"cuMemGetAllocationGranularity", "granularity_bytes, prop, kind"},
    {"cuMemAddressReserve", "address, bytes, alignment_bytes, hint, flags"},
    {"cuMemAddressFree", "address, bytes"},
    {"cuMemCreate", "handle, bytes, prop, flags"},
    {"cuMemRelease", "handle"},
    {"cuMemMap", "address, bytes, offset_bytes, handle, flags"},
    {"cuMemUnmap", "address, bytes"},
    {"cuMemSetAccess", "address, bytes, descs, count"},
    {"cuMemGetAccess", "flags, location, address"},
    {"cuMemRetainAllocationHandle", "handle, address"},
    {"cuMemGetAllocationPropertiesFromHandle", "prop, handle"},
    {"cuMemExportToShareableHandle", "shareable, handle, type, flags"},
    {"cuMemImportFromShareableHandle", "handle, shareable, type"},
    {"cuMemGetAddressRange", "base, bytes, address"},
    {"cuPointerGetAttribute", "data, attribute, address"},
    {"cuMemGetInfo", "free_bytes, total_bytes"},
    {"cuMemAlloc", "address, bytes"},
    {"cuMemFree", "address"},
    {"cuMemcpyDtoDAsync", "dst, src, bytes, stream"},
    {"cuMemcpyHtoDAsync", "dst, src, bytes, stream"},
    {"cuMemcpyDtoHAsync", "dst, src, bytes, stream"},
    {"cuMemsetD8Async", "dst, value, bytes, stream"},
    {"cuStreamCreate", "stream, flags"},
    {"cuStreamDestroy", "stream"},
    {"cuStreamQuery", "stream"},
    {"cuStreamSynchronize", "stream"},
    {"cuStreamGetId", "stream, id"},
    {"cuStreamIsCapturing", "stream, status"},
    {"cuStreamWaitEvent", "stream, event, flags"},
    {"cuEventCreate", "event, flags"},
    {"cuEventDestroy", "event"},
    {"cuEventRecord", "event, stream"},
    {"cuEventQuery", "event"},
    {"cuEventSynchronize", "event"},
    {"cuCtxSynchronize", ""},
    {"cuStreamWaitValue32", "stream, address, value, flags"},
    {"cuStreamWaitValue64", "stream, address, value, flags"},
    {"cuStreamWriteValue32", "stream, address, value, flags"},
    {"cuStreamWriteValue64", "stream, address, value, flags"},
    {"cuLaunchHostFunc", "stream, function, user_data"},
    {"cuStreamBeginCapture", "stream, mode"},
    {"cuStreamEndCapture", "stream, graph"},
    {"cuThreadExchangeStreamCaptureMode", "mode"},
    {"cuGraphInstantiateWithFlags", "exec, graph, flags"},
    {"cuGraphLaunch", "exec, stream"},
    {"cuGraphExecDestroy", "exec"},
    {"cuGraphDestroy", "graph"},
}};

// Counts and codes are read as decimal numbers; what is larger than any of them
// is an address.
constexpr uint64_t kSmallestAddress = uint64_t{1} << 40;

const CallNames& NamesOf(DriverCall call) {
  return kCallNames[static_cast<size_t>(call)];
}

}  // namespace

absl::string_view DriverCallName(DriverCall call) { return NamesOf(call).call; }

absl::StatusOr<DriverCall> ParseDriverCall(absl::string_view name) {
  for (size_t i = 0; i < kCallNames.size(); ++i) {
    if (kCallNames[i].call == name) return static_cast<DriverCall>(i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown driver call '", name,
                   "': expected a name such as cuMemMap or cuMemSetAccess"));
}

std::string FormatDriverCall(const DriverCallArgs& args) {
  const CallNames& names = NamesOf(args.call);
  std::vector<std::string> parts;
  if (!names.parameters.empty()) {
    const std::vector<absl::string_view> parameters =
        absl::StrSplit(names.parameters, ", ");
    for (size_t i = 0; i < parameters.size(); ++i) {
      const uint64_t value = args.values[i];
      parts.push_back(
          value < kSmallestAddress
              ? absl::StrCat(parameters[i], "=", value)
              : absl::StrCat(parameters[i], "=0x", absl::Hex(value)));
    }
  }
  return absl::StrCat(names.call, "(", absl::StrJoin(parts, ", "), ")");
}

}  // namespace firn

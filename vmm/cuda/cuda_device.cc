// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/cuda_device.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/cuda/cuda_loader.h"
#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

absl::Status Initialise(const CudaApi& api) {
  const DriverResult result = api.Init(0);
  switch (result) {
    case DriverResult::kSuccess:
      return absl::OkStatus();
    case DriverResult::kNoDevice:
      return absl::UnavailableError("the CUDA driver finds no device");
    case DriverResult::kStubLibrary:
      return absl::UnavailableError(
          "the CUDA library is the toolkit's stub for linking, not a driver");
    default:
      return CudaUnavailable(api, "cuInit", result);
  }
}

absl::StatusOr<CudaDeviceId> FindDevice(const CudaApi& api, int ordinal,
                                        int count) {
  if (ordinal < 0 || ordinal >= count) {
    return absl::UnavailableError(absl::StrCat(
        "there is no CUDA device ", ordinal, ": the driver has ", count,
        count == 1 ? " device" : " devices", ", counted from 0"));
  }
  CudaDeviceId id = 0;
  const DriverResult result = api.DeviceGet(&id, ordinal);
  if (result != DriverResult::kSuccess) {
    return CudaUnavailable(api, "cuDeviceGet", result);
  }
  return id;
}

std::string DeviceName(const CudaApi& api, CudaDeviceId id) {
  char name[256] = "";
  const DriverResult result =
      api.DeviceGetName(name, static_cast<int32_t>(sizeof(name)), id);
  return result == DriverResult::kSuccess ? name : "unnamed CUDA device";
}

// What keeps memory on this device from being moved, or from being used where
// that is not needed; empty if nothing does.
std::string ShortfallOf(const CudaApi& api, CudaDeviceId id,
                        bool needs_virtual_memory) {
  if (!api.shortfall.empty()) return api.shortfall;
  if (!needs_virtual_memory) return "";
  int32_t supported = 0;
  const DriverResult result = api.DeviceGetAttribute(
      &supported, DeviceAttribute::kVirtualMemoryManagement, id);
  if (result == DriverResult::kSuccess && supported != 0) return "";
  constexpr char kNeeded[] =
      "it does not support virtual memory management in this system (attribute "
      "102 of the device is ";
  return result == DriverResult::kSuccess
             ? absl::StrCat(kNeeded, supported, ", and 1 is needed)")
             : absl::StrCat(kNeeded, "not known: ", DriverResultName(result),
                            ", and 1 is needed)");
}

}  // namespace

absl::StatusOr<int> CudaDevice::Count(const CudaApi& api) {
  const absl::Status initialised = Initialise(api);
  if (!initialised.ok()) return initialised;
  int32_t count = 0;
  const DriverResult result = api.DeviceGetCount(&count);
  if (result != DriverResult::kSuccess) {
    return CudaUnavailable(api, "cuDeviceGetCount", result);
  }
  if (count == 0) {
    return absl::UnavailableError("the CUDA driver finds no device");
  }
  return count;
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(
    const CudaApi& api, int ordinal, bool needs_virtual_memory) {
  const absl::StatusOr<int> count = Count(api);
  if (!count.ok()) return count.status();
  const absl::StatusOr<CudaDeviceId> id = FindDevice(api, ordinal, *count);
  if (!id.ok()) return id.status();
  DriverIdentity identity;
  identity.backend = "cuda";
  identity.device_name = DeviceName(api, *id);
  identity.device_ordinal = ordinal;
  identity.driver_version = api.driver_version;
  const std::string shortfall = ShortfallOf(api, *id, needs_virtual_memory);
  if (!shortfall.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("no memory can be moved on CUDA device ", ordinal, " (",
                     identity.device_name, "): ", shortfall));
  }
  CudaContext context = nullptr;
  const DriverResult result = api.DevicePrimaryCtxRetain(&context, *id);
  if (result != DriverResult::kSuccess) {
    return CudaUnavailable(api, "cuDevicePrimaryCtxRetain", result);
  }
  return std::unique_ptr<CudaDevice>(
      new CudaDevice(api, *id, context, std::move(identity)));
}

CudaDevice::CudaDevice(const CudaApi& api, CudaDeviceId id, CudaContext context,
                       DriverIdentity identity)
    : api_(api),
      id_(id),
      context_(context),
      identity_(std::move(identity)),
      loss_(LossLatch::Of(api, context)) {}

CudaDevice::~CudaDevice() {
  // A driver that has shut down already (at process exit) answers
  // kDeinitialized and has released the context itself: nothing to do then, as
  // after any other failure.
  api_.DevicePrimaryCtxRelease(id_);
}

ScopedCudaContext::~ScopedCudaContext() {
  if (result_ != DriverResult::kSuccess) return;
  // A failure is one of earlier work, which the next call reports too. It must
  // not replace the result of the call made in this scope, whose effect stands.
  CudaContext popped = nullptr;
  device_.api().CtxPopCurrent(&popped);
}

}  // namespace firn

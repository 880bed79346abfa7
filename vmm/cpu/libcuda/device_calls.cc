// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exported functions that start the driver and describe devices.

#include <algorithm>
#include <cstring>
#include <string>

#include "firn/vmm/cpu/libcuda/calls.h"
#include "firn/vmm/cpu/libcuda/process.h"
#include "firn/vmm/cpu/libcuda/symbols.h"

namespace firn::libcuda {
namespace {

// The same in every process: the device that another process means.
DriverResult GetUuid(DeviceUuid* uuid, CudaDeviceId id) {
  return OnDevice(id, [&](Process&, const Device& device) {
    if (uuid == nullptr) return DriverResult::kInvalidValue;
    constexpr char kName[] = "firn CPU device";
    static_assert(sizeof(kName) == sizeof(uuid->bytes));
    std::memcpy(uuid->bytes, kName, sizeof(kName));
    uuid->bytes[sizeof(kName) - 1] = static_cast<char>(device.ordinal);
    return DriverResult::kSuccess;
  });
}

}  // namespace

extern "C" {

DriverResult cuInit_v2000(uint32_t flags) {
  if (flags != 0) return DriverResult::kInvalidValue;
  return Process::Start();
}

DriverResult cuDriverGetVersion_v2020(int32_t* version) {
  if (version == nullptr) return DriverResult::kInvalidValue;
  *version = kDriverVersion;
  return DriverResult::kSuccess;
}

DriverResult cuDeviceGet_v2000(CudaDeviceId* id, int32_t ordinal) {
  return OnDevice(ordinal, [&](Process&, const Device& device) {
    if (id == nullptr) return DriverResult::kInvalidValue;
    *id = device.ordinal;
    return DriverResult::kSuccess;
  });
}

DriverResult cuDeviceGetCount_v2000(int32_t* count) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->DeviceGetCount(count);
  });
}

DriverResult cuDeviceGetName_v2000(char* name, int32_t bytes, CudaDeviceId id) {
  return OnDevice(id, [&](Process&, const Device& device) {
    if (name == nullptr || bytes <= 0) return DriverResult::kInvalidValue;
    const std::string full_name = device.cpu->identity().device_name;
    const size_t length =
        std::min(full_name.size(), static_cast<size_t>(bytes) - 1);
    std::memcpy(name, full_name.data(), length);
    name[length] = '\0';
    return DriverResult::kSuccess;
  });
}

DriverResult cuDeviceGetAttribute_v2000(int32_t* value,
                                        DeviceAttribute attribute,
                                        CudaDeviceId id) {
  return OnDevice(id, [&](Process&, const Device& device) {
    return device.front->DeviceGetAttribute(value, attribute);
  });
}

DriverResult cuDeviceCanAccessPeer_v4000(int32_t* can_access, CudaDeviceId id,
                                         CudaDeviceId peer) {
  return OnDevice(id, [&](Process&, const Device& device) {
    return device.front->DeviceCanAccessPeer(can_access, peer);
  });
}

DriverResult cuDeviceTotalMem_v3020(size_t* total_bytes, CudaDeviceId id) {
  return OnDevice(id, [&](Process&, const Device& device) {
    size_t free_bytes = 0;
    return device.cpu->MemGetInfo(&free_bytes, total_bytes);
  });
}

DriverResult cuDeviceGetUuid_v9020(DeviceUuid* uuid, CudaDeviceId id) {
  return GetUuid(uuid, id);
}

DriverResult cuDeviceGetUuid_v11040(DeviceUuid* uuid, CudaDeviceId id) {
  return GetUuid(uuid, id);
}

}  // extern "C"
}  // namespace firn::libcuda

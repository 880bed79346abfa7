// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exported functions that copy and fill. Those without a stream run on the
// legacy default stream; they wait for their end where host memory is read or
// written, and not otherwise.

#include <algorithm>
#include <cstring>
#include <limits>

#include "firn/vmm/cpu/libcuda/calls.h"
#include "firn/vmm/cpu/libcuda/process.h"
#include "firn/vmm/cpu/libcuda/symbols.h"

namespace firn::libcuda {
namespace {

constexpr StreamHandle kLegacyStream = nullptr;

void* ToPointer(DevicePtr address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

// `result` is that of queueing work on the legacy stream.
DriverResult Wait(const Device& device, DriverResult result) {
  if (result != DriverResult::kSuccess) return result;
  return device.cpu->StreamSynchronize(kLegacyStream);
}

// Copies between what the addresses mean, device or host memory;
// `*touches_host` tells whether a host buffer is in use until the copy is done.
DriverResult CopyAnywhere(Process& process, const Device& device, DevicePtr dst,
                          DevicePtr src, size_t bytes, StreamHandle stream,
                          bool* touches_host) {
  const bool from_device = process.reservations().Contains(src);
  const bool to_device = process.reservations().Contains(dst);
  *touches_host = !from_device || !to_device;
  if (from_device && to_device) {
    return device.front->MemcpyDtoDAsync(dst, src, bytes, stream);
  }
  if (to_device) {
    return device.front->MemcpyHtoDAsync(dst, ToPointer(src), bytes, stream);
  }
  if (from_device) {
    return device.front->MemcpyDtoHAsync(ToPointer(dst), src, bytes, stream);
  }
  return DriverResult::kNotSupported;
}

DriverResult FillWords(const Device& device, DevicePtr dst, uint32_t value,
                       size_t count, StreamHandle stream) {
  if (dst % sizeof(value) != 0) return DriverResult::kInvalidValue;
  if (count > std::numeric_limits<size_t>::max() / sizeof(value)) {
    return DriverResult::kInvalidValue;
  }
  const size_t bytes = count * sizeof(value);
  // Refuses a bad range, which a kernel would find only once it runs.
  const auto low_byte = static_cast<uint8_t>(value);
  const DriverResult result =
      device.front->MemsetD8Async(dst, low_byte, bytes, stream);
  if (result != DriverResult::kSuccess || bytes == 0) return result;
  if (value == low_byte * 0x01010101u) return result;
  return device.cpu->LaunchKernel(
      stream, {KernelRange{dst, bytes, /*writes=*/true}}, [dst, value, count] {
        std::fill_n(static_cast<uint32_t*>(ToPointer(dst)), count, value);
      });
}

}  // namespace

extern "C" {

// --- On a stream ---

DriverResult cuMemcpyDtoDAsync_v3020(DevicePtr dst, DevicePtr src, size_t bytes,
                                     StreamHandle stream) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->MemcpyDtoDAsync(dst, src, bytes, s);
  });
}

DriverResult cuMemcpyHtoDAsync_v3020(DevicePtr dst, const void* src,
                                     size_t bytes, StreamHandle stream) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->MemcpyHtoDAsync(dst, src, bytes, s);
  });
}

DriverResult cuMemcpyDtoHAsync_v3020(void* dst, DevicePtr src, size_t bytes,
                                     StreamHandle stream) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->MemcpyDtoHAsync(dst, src, bytes, s);
  });
}

DriverResult cuMemcpyAsync_v4000(DevicePtr dst, DevicePtr src, size_t bytes,
                                 StreamHandle stream) {
  return OnStream(
      stream, [&](Process& process, const Device& device, StreamHandle s) {
        bool touches_host = false;
        return CopyAnywhere(process, device, dst, src, bytes, s, &touches_host);
      });
}

DriverResult cuMemsetD8Async_v3020(DevicePtr dst, unsigned char value,
                                   size_t bytes, StreamHandle stream) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->MemsetD8Async(dst, value, bytes, s);
  });
}

DriverResult cuMemsetD32Async_v3020(DevicePtr dst, uint32_t value, size_t count,
                                    StreamHandle stream) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return FillWords(device, dst, value, count, s);
  });
}

// --- Without a stream ---

DriverResult cuMemcpyDtoD_v3020(DevicePtr dst, DevicePtr src, size_t bytes) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->MemcpyDtoDAsync(dst, src, bytes, kLegacyStream);
  });
}

DriverResult cuMemcpyHtoD_v3020(DevicePtr dst, const void* src, size_t bytes) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return Wait(device,
                device.front->MemcpyHtoDAsync(dst, src, bytes, kLegacyStream));
  });
}

DriverResult cuMemcpyDtoH_v3020(void* dst, DevicePtr src, size_t bytes) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return Wait(device,
                device.front->MemcpyDtoHAsync(dst, src, bytes, kLegacyStream));
  });
}

DriverResult cuMemcpy_v4000(DevicePtr dst, DevicePtr src, size_t bytes) {
  return OnCurrentDevice([&](Process& process, const Device& device) {
    if (!process.reservations().Contains(src) &&
        !process.reservations().Contains(dst)) {
      const DriverResult result = Wait(device, DriverResult::kSuccess);
      if (result == DriverResult::kSuccess) {
        std::memmove(ToPointer(dst), ToPointer(src), bytes);
      }
      return result;
    }
    bool touches_host = false;
    const DriverResult result = CopyAnywhere(process, device, dst, src, bytes,
                                             kLegacyStream, &touches_host);
    return touches_host ? Wait(device, result) : result;
  });
}

DriverResult cuMemsetD8_v3020(DevicePtr dst, unsigned char value,
                              size_t bytes) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->MemsetD8Async(dst, value, bytes, kLegacyStream);
  });
}

DriverResult cuMemsetD32_v3020(DevicePtr dst, uint32_t value, size_t count) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return FillWords(device, dst, value, count, kLegacyStream);
  });
}

}  // extern "C"
}  // namespace firn::libcuda

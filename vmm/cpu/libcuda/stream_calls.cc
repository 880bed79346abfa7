// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exported functions on streams, events, and values and host functions in
// stream order.

#include "firn/vmm/cpu/libcuda/calls.h"
#include "firn/vmm/cpu/libcuda/process.h"
#include "firn/vmm/cpu/libcuda/symbols.h"

namespace firn::libcuda {
namespace {

DriverResult GetContext(StreamHandle stream, CudaContext* context) {
  return OnStream(
      stream, [&](Process& process, const Device& device, StreamHandle s) {
        if (context == nullptr) return DriverResult::kInvalidValue;
        int number = 0;
        const DriverResult result = device.cpu->StreamGetContext(s, &number);
        if (result != DriverResult::kSuccess) return result;
        const CudaContext found = process.contexts().Find(number);
        if (found == nullptr) return DriverResult::kInvalidHandle;
        *context = found;
        return DriverResult::kSuccess;
      });
}

}  // namespace

extern "C" {

DriverResult cuStreamCreate_v2000(StreamHandle* stream, uint32_t flags) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->StreamCreate(stream, flags);
  });
}

// Priorities outside the range are clamped, and there is but one inside.
DriverResult cuStreamCreateWithPriority_v5050(StreamHandle* stream,
                                              uint32_t flags,
                                              int32_t /*priority*/) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->StreamCreate(stream, flags);
  });
}

DriverResult cuStreamDestroy_v4000(StreamHandle stream) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamDestroy(s);
  });
}

DriverResult cuStreamQuery_v2000(StreamHandle stream) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamQuery(s);
  });
}

DriverResult cuStreamSynchronize_v2000(StreamHandle stream) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamSynchronize(s);
  });
}

DriverResult cuStreamGetId_v12000(StreamHandle stream, uint64_t* id) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamGetId(s, id);
  });
}

DriverResult cuStreamGetCtx_v9020(StreamHandle stream, CudaContext* context) {
  return GetContext(stream, context);
}

// There are no green contexts.
DriverResult cuStreamGetCtx_v12050(StreamHandle stream, CudaContext* context,
                                   void** green_context) {
  const DriverResult result = GetContext(stream, context);
  if (result == DriverResult::kSuccess && green_context != nullptr) {
    *green_context = nullptr;
  }
  return result;
}

DriverResult cuStreamWaitEvent_v3020(StreamHandle stream, EventHandle event,
                                     uint32_t flags) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamWaitEvent(s, event, flags);
  });
}

DriverResult cuEventCreate_v2000(EventHandle* event, uint32_t flags) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->EventCreate(event, flags);
  });
}

DriverResult cuEventDestroy_v4000(EventHandle event) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->EventDestroy(event);
  });
}

DriverResult cuEventRecord_v2000(EventHandle event, StreamHandle stream) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->EventRecord(event, s);
  });
}

DriverResult cuEventQuery_v2000(EventHandle event) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->EventQuery(event);
  });
}

DriverResult cuEventSynchronize_v2000(EventHandle event) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->EventSynchronize(event);
  });
}

DriverResult cuStreamWaitValue32_v11070(StreamHandle stream, DevicePtr address,
                                        uint32_t value, uint32_t flags) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamWaitValue32(s, address, value, flags);
  });
}

DriverResult cuStreamWaitValue64_v11070(StreamHandle stream, DevicePtr address,
                                        uint64_t value, uint32_t flags) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamWaitValue64(s, address, value, flags);
  });
}

DriverResult cuStreamWriteValue32_v11070(StreamHandle stream, DevicePtr address,
                                         uint32_t value, uint32_t flags) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamWriteValue32(s, address, value, flags);
  });
}

DriverResult cuStreamWriteValue64_v11070(StreamHandle stream, DevicePtr address,
                                         uint64_t value, uint32_t flags) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamWriteValue64(s, address, value, flags);
  });
}

DriverResult cuLaunchHostFunc_v10000(StreamHandle stream, HostFunction function,
                                     void* user_data) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->LaunchHostFunc(s, function, user_data);
  });
}

}  // extern "C"
}  // namespace firn::libcuda

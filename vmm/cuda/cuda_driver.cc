// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/cuda_driver.h"

#include <utility>

#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/cuda/cuda_device.h"
#include "firn/vmm/cuda/cuda_loader.h"

namespace firn {
namespace {

// Passes each call to the function of the same name. Questions about devices,
// the virtual-memory calls and the thread's capture mode belong to no context;
// all others are made with the device's primary context current, so that null
// streams, new streams and new events are the device's, and so is the access
// that a pointer's attributes tell of. Making a context current is legal during
// a capture and does not concern it.
class CudaDriver : public Driver {
 public:
  explicit CudaDriver(std::unique_ptr<CudaDevice> device)
      : device_(std::move(device)) {}

  DriverIdentity identity() const override { return device_->identity(); }

  DriverResult DeviceGetCount(int32_t* count) override {
    return api().DeviceGetCount(count);
  }
  DriverResult DeviceGetAttribute(int32_t* value,
                                  DeviceAttribute attribute) override {
    return api().DeviceGetAttribute(value, attribute, device_->id());
  }
  DriverResult DeviceCanAccessPeer(int32_t* can_access, int32_t peer) override {
    CudaDeviceId peer_id = 0;
    const DriverResult result = api().DeviceGet(&peer_id, peer);
    if (result != DriverResult::kSuccess) return result;
    return api().DeviceCanAccessPeer(can_access, device_->id(), peer_id);
  }

  DriverResult MemGetAllocationGranularity(size_t* granularity_bytes,
                                           const AllocationProp* prop,
                                           GranularityKind kind) override {
    // The driver itself is known to dereference a null prop.
    if (prop == nullptr) return DriverResult::kInvalidValue;
    return api().MemGetAllocationGranularity(granularity_bytes, prop, kind);
  }
  DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) override {
    return api().MemAddressReserve(address, bytes, alignment_bytes, hint,
                                   flags);
  }
  DriverResult MemAddressFree(DevicePtr address, size_t bytes) override {
    return api().MemAddressFree(address, bytes);
  }
  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override {
    return api().MemCreate(handle, bytes, prop, flags);
  }
  DriverResult MemRelease(PhysicalHandle handle) override {
    return api().MemRelease(handle);
  }
  DriverResult MemMap(DevicePtr address, size_t bytes, size_t offset_bytes,
                      PhysicalHandle handle, uint64_t flags) override {
    return api().MemMap(address, bytes, offset_bytes, handle, flags);
  }
  DriverResult MemUnmap(DevicePtr address, size_t bytes) override {
    return api().MemUnmap(address, bytes);
  }
  DriverResult MemSetAccess(DevicePtr address, size_t bytes,
                            const AccessDesc* descs, size_t count) override {
    return api().MemSetAccess(address, bytes, descs, count);
  }
  DriverResult MemGetAccess(AccessFlags* flags, const MemLocation* location,
                            DevicePtr address) override {
    if (flags == nullptr) return DriverResult::kInvalidValue;
    // The driver writes 64 bits.
    uint64_t wide_flags = 0;
    const DriverResult result =
        api().MemGetAccess(&wide_flags, location, address);
    if (result == DriverResult::kSuccess) {
      *flags = static_cast<AccessFlags>(wide_flags);
    }
    return result;
  }
  DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                         DevicePtr address) override {
    return api().MemRetainAllocationHandle(handle,
                                           reinterpret_cast<void*>(address));
  }
  DriverResult MemGetAllocationPropertiesFromHandle(
      AllocationProp* prop, PhysicalHandle handle) override {
    return api().MemGetAllocationPropertiesFromHandle(prop, handle);
  }
  DriverResult MemExportToShareableHandle(void* shareable,
                                          PhysicalHandle handle,
                                          ShareableHandleType type,
                                          uint64_t flags) override {
    return api().MemExportToShareableHandle(shareable, handle, type, flags);
  }
  DriverResult MemImportFromShareableHandle(PhysicalHandle* handle,
                                            void* shareable,
                                            ShareableHandleType type) override {
    return api().MemImportFromShareableHandle(handle, shareable, type);
  }

  DriverResult MemGetAddressRange(DevicePtr* base, size_t* bytes,
                                  DevicePtr address) override {
    return InContext(api().MemGetAddressRange, base, bytes, address);
  }
  DriverResult PointerGetAttribute(void* data, PointerAttribute attribute,
                                   DevicePtr address) override {
    return InContext(api().PointerGetAttribute, data, attribute, address);
  }
  DriverResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) override {
    return InContext(api().MemGetInfo, free_bytes, total_bytes);
  }

  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    return InContext(api().MemcpyDtoDAsync, dst, src, bytes, stream);
  }
  DriverResult MemcpyHtoDAsync(DevicePtr dst, const void* src, size_t bytes,
                               StreamHandle stream) override {
    return InContext(api().MemcpyHtoDAsync, dst, src, bytes, stream);
  }
  DriverResult MemcpyDtoHAsync(void* dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    return InContext(api().MemcpyDtoHAsync, dst, src, bytes, stream);
  }
  DriverResult MemsetD8Async(DevicePtr dst, uint8_t value, size_t bytes,
                             StreamHandle stream) override {
    return InContext(api().MemsetD8Async, dst, value, bytes, stream);
  }

  DriverResult StreamCreate(StreamHandle* stream, uint32_t flags) override {
    return InContext(api().StreamCreate, stream, flags);
  }
  DriverResult StreamDestroy(StreamHandle stream) override {
    return InContext(api().StreamDestroy, stream);
  }
  DriverResult StreamQuery(StreamHandle stream) override {
    return InContext(api().StreamQuery, stream);
  }
  DriverResult StreamSynchronize(StreamHandle stream) override {
    return InContext(api().StreamSynchronize, stream);
  }
  DriverResult StreamGetId(StreamHandle stream, uint64_t* id) override {
    return InContext(api().StreamGetId, stream, id);
  }
  DriverResult StreamIsCapturing(StreamHandle stream,
                                 CaptureStatus* status) override {
    return InContext(api().StreamIsCapturing, stream, status);
  }
  DriverResult StreamWaitEvent(StreamHandle stream, EventHandle event,
                               uint32_t flags) override {
    return InContext(api().StreamWaitEvent, stream, event, flags);
  }
  DriverResult EventCreate(EventHandle* event, uint32_t flags) override {
    return InContext(api().EventCreate, event, flags);
  }
  DriverResult EventDestroy(EventHandle event) override {
    return InContext(api().EventDestroy, event);
  }
  DriverResult EventRecord(EventHandle event, StreamHandle stream) override {
    return InContext(api().EventRecord, event, stream);
  }
  DriverResult EventQuery(EventHandle event) override {
    return InContext(api().EventQuery, event);
  }
  DriverResult EventSynchronize(EventHandle event) override {
    return InContext(api().EventSynchronize, event);
  }
  DriverResult CtxSynchronize() override {
    return InContext(api().CtxSynchronize);
  }

  DriverResult StreamWaitValue32(StreamHandle stream, DevicePtr address,
                                 uint32_t value, uint32_t flags) override {
    return InContext(api().StreamWaitValue32, stream, address, value, flags);
  }
  DriverResult StreamWaitValue64(StreamHandle stream, DevicePtr address,
                                 uint64_t value, uint32_t flags) override {
    return InContext(api().StreamWaitValue64, stream, address, value, flags);
  }
  DriverResult StreamWriteValue32(StreamHandle stream, DevicePtr address,
                                  uint32_t value, uint32_t flags) override {
    return InContext(api().StreamWriteValue32, stream, address, value, flags);
  }
  DriverResult StreamWriteValue64(StreamHandle stream, DevicePtr address,
                                  uint64_t value, uint32_t flags) override {
    return InContext(api().StreamWriteValue64, stream, address, value, flags);
  }
  DriverResult LaunchHostFunc(StreamHandle stream, HostFunction function,
                              void* user_data) override {
    return InContext(api().LaunchHostFunc, stream, function, user_data);
  }

  DriverResult StreamBeginCapture(StreamHandle stream,
                                  CaptureMode mode) override {
    return InContext(api().StreamBeginCapture, stream, mode);
  }
  DriverResult StreamEndCapture(StreamHandle stream,
                                GraphHandle* graph) override {
    return InContext(api().StreamEndCapture, stream, graph);
  }
  DriverResult ThreadExchangeStreamCaptureMode(CaptureMode* mode) override {
    return api().ThreadExchangeStreamCaptureMode(mode);
  }
  DriverResult GraphInstantiate(GraphExecHandle* exec, GraphHandle graph,
                                uint64_t flags) override {
    return InContext(api().GraphInstantiateWithFlags, exec, graph, flags);
  }
  DriverResult GraphLaunch(GraphExecHandle exec, StreamHandle stream) override {
    return InContext(api().GraphLaunch, exec, stream);
  }
  DriverResult GraphExecDestroy(GraphExecHandle exec) override {
    return InContext(api().GraphExecDestroy, exec);
  }
  DriverResult GraphDestroy(GraphHandle graph) override {
    return InContext(api().GraphDestroy, graph);
  }

 private:
  const CudaApi& api() const { return device_->api(); }

  // `function` is null where the driver lacks it.
  template <typename Function, typename... Args>
  DriverResult InContext(Function* function, Args... args) const {
    if (function == nullptr) return DriverResult::kNotSupported;
    const ScopedCudaContext scope(*device_);
    if (scope.result() != DriverResult::kSuccess) return scope.result();
    return function(args...);
  }

  const std::unique_ptr<CudaDevice> device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Driver>> OpenCudaDriver(
    const CudaDriverOptions& options) {
  const absl::StatusOr<CudaApi> api = LoadCudaApi(options.library);
  if (!api.ok()) return api.status();
  absl::StatusOr<std::unique_ptr<CudaDevice>> device =
      CudaDevice::Open(*api, options.device_ordinal);
  if (!device.ok()) return device.status();
  return std::make_unique<CudaDriver>(*std::move(device));
}

}  // namespace firn

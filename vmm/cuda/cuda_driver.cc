// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/cuda_driver.h"

#include <string>
#include <utility>

#include "firn/vmm/cuda/call_rules.h"
#include "firn/vmm/cuda/cuda_api.h"
#include "firn/vmm/cuda/cuda_device.h"
#include "firn/vmm/cuda/cuda_loader.h"
#include "firn/vmm/cuda/loss_latch.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

// Passes each call to the function of the same name, by the rules that
// vmm/cuda/cuda_driver.h promises and vmm/cuda/call_rules.h lists.
//
// The device's primary context is current during each call but a few, so that
// null streams, new streams and new events are the device's, and so is the
// access that a pointer's attributes tell of. The calls that manage memory
// belong to no context, but they may report errors of earlier work in the
// current one, and wait for work of it: it must be this device's. Making a
// context current is legal during a capture and does not concern it.
class CudaDriver : public Driver {
 public:
  explicit CudaDriver(std::unique_ptr<CudaDevice> device)
      : device_(std::move(device)) {}

  DriverIdentity identity() const override { return device_->identity(); }
  std::string loss() const override { return device_->loss().cause(); }

  DriverResult DeviceGetCount(int32_t* count) override {
    return Ask([&] { return api().DeviceGetCount(count); });
  }
  DriverResult DeviceGetAttribute(int32_t* value,
                                  DeviceAttribute attribute) override {
    return Ask([&] {
      return api().DeviceGetAttribute(value, attribute, device_->id());
    });
  }
  DriverResult DeviceCanAccessPeer(int32_t* can_access, int32_t peer) override {
    return Ask([&] {
      CudaDeviceId peer_id = 0;
      const DriverResult result = api().DeviceGet(&peer_id, peer);
      if (result != DriverResult::kSuccess) return result;
      return api().DeviceCanAccessPeer(can_access, device_->id(), peer_id);
    });
  }

  DriverResult MemGetAllocationGranularity(size_t* granularity_bytes,
                                           const AllocationProp* prop,
                                           GranularityKind kind) override {
    // The driver itself is known to dereference a null prop.
    if (prop == nullptr) return DriverResult::kInvalidValue;
    return Make(DriverCall::kMemGetAllocationGranularity,
                api().MemGetAllocationGranularity, granularity_bytes, prop,
                kind);
  }
  DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) override {
    return Make(DriverCall::kMemAddressReserve, api().MemAddressReserve,
                address, bytes, alignment_bytes, hint, flags);
  }
  DriverResult MemAddressFree(DevicePtr address, size_t bytes) override {
    return Make(DriverCall::kMemAddressFree, api().MemAddressFree, address,
                bytes);
  }
  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override {
    return Make(DriverCall::kMemCreate, api().MemCreate, handle, bytes, prop,
                flags);
  }
  DriverResult MemRelease(PhysicalHandle handle) override {
    return Make(DriverCall::kMemRelease, api().MemRelease, handle);
  }
  DriverResult MemMap(DevicePtr address, size_t bytes, size_t offset_bytes,
                      PhysicalHandle handle, uint64_t flags) override {
    return Make(DriverCall::kMemMap, api().MemMap, address, bytes, offset_bytes,
                handle, flags);
  }
  DriverResult MemUnmap(DevicePtr address, size_t bytes) override {
    return Make(DriverCall::kMemUnmap, api().MemUnmap, address, bytes);
  }
  DriverResult MemSetAccess(DevicePtr address, size_t bytes,
                            const AccessDesc* descs, size_t count) override {
    return Make(DriverCall::kMemSetAccess, api().MemSetAccess, address, bytes,
                descs, count);
  }
  DriverResult MemGetAccess(AccessFlags* flags, const MemLocation* location,
                            DevicePtr address) override {
    if (flags == nullptr) return DriverResult::kInvalidValue;
    // The driver writes 64 bits.
    uint64_t wide_flags = 0;
    const DriverResult result =
        Make(DriverCall::kMemGetAccess, api().MemGetAccess, &wide_flags,
             location, address);
    if (result == DriverResult::kSuccess) {
      *flags = static_cast<AccessFlags>(wide_flags);
    }
    return result;
  }
  DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                         DevicePtr address) override {
    return Make(DriverCall::kMemRetainAllocationHandle,
                api().MemRetainAllocationHandle, handle,
                reinterpret_cast<void*>(address));
  }
  DriverResult MemGetAllocationPropertiesFromHandle(
      AllocationProp* prop, PhysicalHandle handle) override {
    return Make(DriverCall::kMemGetAllocationPropertiesFromHandle,
                api().MemGetAllocationPropertiesFromHandle, prop, handle);
  }
  DriverResult MemExportToShareableHandle(void* shareable,
                                          PhysicalHandle handle,
                                          ShareableHandleType type,
                                          uint64_t flags) override {
    return Make(DriverCall::kMemExportToShareableHandle,
                api().MemExportToShareableHandle, shareable, handle, type,
                flags);
  }
  DriverResult MemImportFromShareableHandle(PhysicalHandle* handle,
                                            void* shareable,
                                            ShareableHandleType type) override {
    return Make(DriverCall::kMemImportFromShareableHandle,
                api().MemImportFromShareableHandle, handle, shareable, type);
  }

  DriverResult MemGetAddressRange(DevicePtr* base, size_t* bytes,
                                  DevicePtr address) override {
    return Make(DriverCall::kMemGetAddressRange, api().MemGetAddressRange, base,
                bytes, address);
  }
  DriverResult PointerGetAttribute(void* data, PointerAttribute attribute,
                                   DevicePtr address) override {
    return Make(DriverCall::kPointerGetAttribute, api().PointerGetAttribute,
                data, attribute, address);
  }
  DriverResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) override {
    return Make(DriverCall::kMemGetInfo, api().MemGetInfo, free_bytes,
                total_bytes);
  }

  DriverResult MemAlloc(DevicePtr* address, size_t bytes) override {
    return Make(DriverCall::kMemAlloc, api().MemAlloc, address, bytes);
  }
  DriverResult MemFree(DevicePtr address) override {
    return Make(DriverCall::kMemFree, api().MemFree, address);
  }

  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    return Make(DriverCall::kMemcpyDtoDAsync, api().MemcpyDtoDAsync, dst, src,
                bytes, stream);
  }
  DriverResult MemcpyHtoDAsync(DevicePtr dst, const void* src, size_t bytes,
                               StreamHandle stream) override {
    return Make(DriverCall::kMemcpyHtoDAsync, api().MemcpyHtoDAsync, dst, src,
                bytes, stream);
  }
  DriverResult MemcpyDtoHAsync(void* dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    return Make(DriverCall::kMemcpyDtoHAsync, api().MemcpyDtoHAsync, dst, src,
                bytes, stream);
  }
  DriverResult MemsetD8Async(DevicePtr dst, uint8_t value, size_t bytes,
                             StreamHandle stream) override {
    return Make(DriverCall::kMemsetD8Async, api().MemsetD8Async, dst, value,
                bytes, stream);
  }

  DriverResult StreamCreate(StreamHandle* stream, uint32_t flags) override {
    return Make(DriverCall::kStreamCreate, api().StreamCreate, stream, flags);
  }
  DriverResult StreamDestroy(StreamHandle stream) override {
    return Make(DriverCall::kStreamDestroy, api().StreamDestroy, stream);
  }
  DriverResult StreamQuery(StreamHandle stream) override {
    return Make(DriverCall::kStreamQuery, api().StreamQuery, stream);
  }
  DriverResult StreamSynchronize(StreamHandle stream) override {
    return Make(DriverCall::kStreamSynchronize, api().StreamSynchronize,
                stream);
  }
  DriverResult StreamGetId(StreamHandle stream, uint64_t* id) override {
    return Make(DriverCall::kStreamGetId, api().StreamGetId, stream, id);
  }
  DriverResult StreamIsCapturing(StreamHandle stream,
                                 CaptureStatus* status) override {
    return Make(DriverCall::kStreamIsCapturing, api().StreamIsCapturing, stream,
                status);
  }
  DriverResult StreamWaitEvent(StreamHandle stream, EventHandle event,
                               uint32_t flags) override {
    return Make(DriverCall::kStreamWaitEvent, api().StreamWaitEvent, stream,
                event, flags);
  }
  DriverResult EventCreate(EventHandle* event, uint32_t flags) override {
    return Make(DriverCall::kEventCreate, api().EventCreate, event, flags);
  }
  DriverResult EventDestroy(EventHandle event) override {
    return Make(DriverCall::kEventDestroy, api().EventDestroy, event);
  }
  DriverResult EventRecord(EventHandle event, StreamHandle stream) override {
    return Make(DriverCall::kEventRecord, api().EventRecord, event, stream);
  }
  DriverResult EventQuery(EventHandle event) override {
    return Make(DriverCall::kEventQuery, api().EventQuery, event);
  }
  DriverResult EventSynchronize(EventHandle event) override {
    return Make(DriverCall::kEventSynchronize, api().EventSynchronize, event);
  }
  DriverResult CtxSynchronize() override {
    return Make(DriverCall::kCtxSynchronize, api().CtxSynchronize);
  }

  DriverResult StreamWaitValue32(StreamHandle stream, DevicePtr address,
                                 uint32_t value, uint32_t flags) override {
    return Make(DriverCall::kStreamWaitValue32, api().StreamWaitValue32, stream,
                address, value, flags);
  }
  DriverResult StreamWaitValue64(StreamHandle stream, DevicePtr address,
                                 uint64_t value, uint32_t flags) override {
    return Make(DriverCall::kStreamWaitValue64, api().StreamWaitValue64, stream,
                address, value, flags);
  }
  DriverResult StreamWriteValue32(StreamHandle stream, DevicePtr address,
                                  uint32_t value, uint32_t flags) override {
    return Make(DriverCall::kStreamWriteValue32, api().StreamWriteValue32,
                stream, address, value, flags);
  }
  DriverResult StreamWriteValue64(StreamHandle stream, DevicePtr address,
                                  uint64_t value, uint32_t flags) override {
    return Make(DriverCall::kStreamWriteValue64, api().StreamWriteValue64,
                stream, address, value, flags);
  }
  DriverResult LaunchHostFunc(StreamHandle stream, HostFunction function,
                              void* user_data) override {
    return Make(DriverCall::kLaunchHostFunc, api().LaunchHostFunc, stream,
                function, user_data);
  }

  DriverResult StreamBeginCapture(StreamHandle stream,
                                  CaptureMode mode) override {
    return Make(DriverCall::kStreamBeginCapture, api().StreamBeginCapture,
                stream, mode);
  }
  DriverResult StreamEndCapture(StreamHandle stream,
                                GraphHandle* graph) override {
    return Make(DriverCall::kStreamEndCapture, api().StreamEndCapture, stream,
                graph);
  }
  // The thread may have lost this device and go on with others: it must get its
  // mode back.
  DriverResult ThreadExchangeStreamCaptureMode(CaptureMode* mode) override {
    return api().ThreadExchangeStreamCaptureMode(mode);
  }
  DriverResult GraphInstantiate(GraphExecHandle* exec, GraphHandle graph,
                                uint64_t flags) override {
    return Make(DriverCall::kGraphInstantiate, api().GraphInstantiateWithFlags,
                exec, graph, flags);
  }
  DriverResult GraphLaunch(GraphExecHandle exec, StreamHandle stream) override {
    return Make(DriverCall::kGraphLaunch, api().GraphLaunch, exec, stream);
  }
  DriverResult GraphExecDestroy(GraphExecHandle exec) override {
    return Make(DriverCall::kGraphExecDestroy, api().GraphExecDestroy, exec);
  }
  DriverResult GraphDestroy(GraphHandle graph) override {
    return Make(DriverCall::kGraphDestroy, api().GraphDestroy, graph);
  }

 private:
  const CudaApi& api() const { return device_->api(); }

  // A question about devices. An error in the answer is not this context's.
  template <typename Question>
  DriverResult Ask(const Question& question) const {
    const DriverResult loss = device_->loss().result();
    return loss == DriverResult::kSuccess ? question() : loss;
  }

  // `function` is null where the driver lacks it.
  template <typename Function, typename... Args>
  DriverResult Make(DriverCall call, Function* function, Args... args) const {
    LossLatch& latch = device_->loss();
    const DriverResult loss = latch.result();
    if (loss != DriverResult::kSuccess) {
      MakeOnLostDevice(RuleOnceLost(call), loss, function, args...);
      return loss;
    }
    if (function == nullptr) return DriverResult::kNotSupported;
    const ScopedCudaContext scope(*device_);
    DriverResult result = scope.result();
    if (result == DriverResult::kSuccess) {
      result = IsRetriedWhenNotReady(call)
                   ? RetryWhileNotReady([&] { return function(args...); })
                   : function(args...);
    }
    return IsStickyResult(result) ? latch.Latch(call, result) : result;
  }

  template <typename Function, typename... Args>
  void MakeOnLostDevice(OnceLost rule, DriverResult loss, Function* function,
                        Args... args) const {
    // A driver that has shut down has ended everything itself.
    if (loss == DriverResult::kDeinitialized) return;
    if (rule == OnceLost::kRefused || function == nullptr) return;
    const ScopedCudaContext scope(*device_);
    // What a call waits for may depend on what is current; what it ends is
    // given by its handle or address.
    if (scope.result() == DriverResult::kSuccess || rule == OnceLost::kEnds) {
      function(args...);
    }
  }

  const std::unique_ptr<CudaDevice> device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Driver>> OpenCudaDriver(
    const CudaDriverOptions& options) {
  const absl::StatusOr<CudaApi> api = LoadCudaApi(options.library);
  if (!api.ok()) return api.status();
  absl::StatusOr<std::unique_ptr<CudaDevice>> device = CudaDevice::Open(
      *api, options.device_ordinal, options.needs_virtual_memory);
  if (!device.ok()) return device.status();
  return std::make_unique<CudaDriver>(*std::move(device));
}

absl::StatusOr<int> CountCudaDevices(const std::string& library) {
  const absl::StatusOr<CudaApi> api = LoadCudaApi(library);
  if (!api.ok()) return api.status();
  return CudaDevice::Count(*api);
}

}  // namespace firn

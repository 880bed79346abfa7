// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver in front of another one, for what counts, logs, charges or fails
// calls.

#ifndef FIRN_VMM_DRIVER_WRAPPER_H_
#define FIRN_VMM_DRIVER_WRAPPER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"

namespace firn {

// Passes every call through Around: override that for what concerns all calls,
// or single calls for what concerns those.
class DriverWrapper : public Driver {
 public:
  // Does not own `base`, which must outlive this object.
  explicit DriverWrapper(Driver* base) : base_(base) {}

  DriverIdentity identity() const override { return base_->identity(); }
  std::string loss() const override { return base_->loss(); }
  DriverResult DeviceGetCount(int32_t* count) override;
  DriverResult DeviceGetAttribute(int32_t* value,
                                  DeviceAttribute attribute) override;
  DriverResult DeviceCanAccessPeer(int32_t* can_access, int32_t peer) override;
  DriverResult MemGetAllocationGranularity(size_t* granularity_bytes,
                                           const AllocationProp* prop,
                                           GranularityKind kind) override;
  DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) override;
  DriverResult MemAddressFree(DevicePtr address, size_t bytes) override;
  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override;
  DriverResult MemRelease(PhysicalHandle handle) override;
  DriverResult MemMap(DevicePtr address, size_t bytes, size_t offset_bytes,
                      PhysicalHandle handle, uint64_t flags) override;
  DriverResult MemUnmap(DevicePtr address, size_t bytes) override;
  DriverResult MemSetAccess(DevicePtr address, size_t bytes,
                            const AccessDesc* descs, size_t count) override;
  DriverResult MemGetAccess(AccessFlags* flags, const MemLocation* location,
                            DevicePtr address) override;
  DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                         DevicePtr address) override;
  DriverResult MemGetAllocationPropertiesFromHandle(
      AllocationProp* prop, PhysicalHandle handle) override;
  DriverResult MemExportToShareableHandle(void* shareable,
                                          PhysicalHandle handle,
                                          ShareableHandleType type,
                                          uint64_t flags) override;
  DriverResult MemImportFromShareableHandle(PhysicalHandle* handle,
                                            void* shareable,
                                            ShareableHandleType type) override;
  DriverResult MemGetAddressRange(DevicePtr* base, size_t* bytes,
                                  DevicePtr address) override;
  DriverResult PointerGetAttribute(void* data, PointerAttribute attribute,
                                   DevicePtr address) override;
  DriverResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) override;
  DriverResult MemAlloc(DevicePtr* address, size_t bytes) override;
  DriverResult MemFree(DevicePtr address) override;
  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemcpyHtoDAsync(DevicePtr dst, const void* src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemcpyDtoHAsync(void* dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemsetD8Async(DevicePtr dst, uint8_t value, size_t bytes,
                             StreamHandle stream) override;
  DriverResult StreamCreate(StreamHandle* stream, uint32_t flags) override;
  DriverResult StreamDestroy(StreamHandle stream) override;
  DriverResult StreamQuery(StreamHandle stream) override;
  DriverResult StreamSynchronize(StreamHandle stream) override;
  DriverResult StreamGetId(StreamHandle stream, uint64_t* id) override;
  DriverResult StreamIsCapturing(StreamHandle stream,
                                 CaptureStatus* status) override;
  DriverResult StreamWaitEvent(StreamHandle stream, EventHandle event,
                               uint32_t flags) override;
  DriverResult EventCreate(EventHandle* event, uint32_t flags) override;
  DriverResult EventDestroy(EventHandle event) override;
  DriverResult EventRecord(EventHandle event, StreamHandle stream) override;
  DriverResult EventQuery(EventHandle event) override;
  DriverResult EventSynchronize(EventHandle event) override;
  DriverResult CtxSynchronize() override;
  DriverResult StreamWaitValue32(StreamHandle stream, DevicePtr address,
                                 uint32_t value, uint32_t flags) override;
  DriverResult StreamWaitValue64(StreamHandle stream, DevicePtr address,
                                 uint64_t value, uint32_t flags) override;
  DriverResult StreamWriteValue32(StreamHandle stream, DevicePtr address,
                                  uint32_t value, uint32_t flags) override;
  DriverResult StreamWriteValue64(StreamHandle stream, DevicePtr address,
                                  uint64_t value, uint32_t flags) override;
  DriverResult LaunchHostFunc(StreamHandle stream, HostFunction function,
                              void* user_data) override;
  DriverResult StreamBeginCapture(StreamHandle stream,
                                  CaptureMode mode) override;
  DriverResult StreamEndCapture(StreamHandle stream,
                                GraphHandle* graph) override;
  DriverResult ThreadExchangeStreamCaptureMode(CaptureMode* mode) override;
  DriverResult GraphInstantiate(GraphExecHandle* exec, GraphHandle graph,
                                uint64_t flags) override;
  DriverResult GraphLaunch(GraphExecHandle exec, StreamHandle stream) override;
  DriverResult GraphExecDestroy(GraphExecHandle exec) override;
  DriverResult GraphDestroy(GraphHandle graph) override;

 protected:
  // `call` makes the call to the base driver. Thread safety: as Driver.
  virtual DriverResult Around(const DriverCallArgs& /*args*/,
                              absl::FunctionRef<DriverResult()> call) {
    return call();
  }

  Driver* base() const { return base_; }

 private:
  Driver* base_;
};

}  // namespace firn

#endif  // FIRN_VMM_DRIVER_WRAPPER_H_

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/driver_wrapper.h"

namespace firn {

DriverResult DriverWrapper::DeviceGetCount(int32_t* count) {
  return Around(DriverCallArgs(DriverCall::kDeviceGetCount, count),
                [&] { return base_->DeviceGetCount(count); });
}

DriverResult DriverWrapper::DeviceGetAttribute(int32_t* value,
                                               DeviceAttribute attribute) {
  return Around(
      DriverCallArgs(DriverCall::kDeviceGetAttribute, value, attribute),
      [&] { return base_->DeviceGetAttribute(value, attribute); });
}

DriverResult DriverWrapper::DeviceCanAccessPeer(int32_t* can_access,
                                                int32_t peer) {
  return Around(
      DriverCallArgs(DriverCall::kDeviceCanAccessPeer, can_access, peer),
      [&] { return base_->DeviceCanAccessPeer(can_access, peer); });
}

DriverResult DriverWrapper::MemGetAllocationGranularity(
    size_t* granularity_bytes, const AllocationProp* prop,
    GranularityKind kind) {
  return Around(DriverCallArgs(DriverCall::kMemGetAllocationGranularity,
                               granularity_bytes, prop, kind),
                [&] {
                  return base_->MemGetAllocationGranularity(granularity_bytes,
                                                            prop, kind);
                });
}

DriverResult DriverWrapper::MemAddressReserve(DevicePtr* address, size_t bytes,
                                              size_t alignment_bytes,
                                              DevicePtr hint, uint64_t flags) {
  return Around(DriverCallArgs(DriverCall::kMemAddressReserve, address, bytes,
                               alignment_bytes, hint, flags),
                [&] {
                  return base_->MemAddressReserve(address, bytes,
                                                  alignment_bytes, hint, flags);
                });
}

DriverResult DriverWrapper::MemAddressFree(DevicePtr address, size_t bytes) {
  return Around(DriverCallArgs(DriverCall::kMemAddressFree, address, bytes),
                [&] { return base_->MemAddressFree(address, bytes); });
}

DriverResult DriverWrapper::MemCreate(PhysicalHandle* handle, size_t bytes,
                                      const AllocationProp* prop,
                                      uint64_t flags) {
  return Around(
      DriverCallArgs(DriverCall::kMemCreate, handle, bytes, prop, flags),
      [&] { return base_->MemCreate(handle, bytes, prop, flags); });
}

DriverResult DriverWrapper::MemRelease(PhysicalHandle handle) {
  return Around(DriverCallArgs(DriverCall::kMemRelease, handle),
                [&] { return base_->MemRelease(handle); });
}

DriverResult DriverWrapper::MemMap(DevicePtr address, size_t bytes,
                                   size_t offset_bytes, PhysicalHandle handle,
                                   uint64_t flags) {
  return Around(DriverCallArgs(DriverCall::kMemMap, address, bytes,
                               offset_bytes, handle, flags),
                [&] {
                  return base_->MemMap(address, bytes, offset_bytes, handle,
                                       flags);
                });
}

DriverResult DriverWrapper::MemUnmap(DevicePtr address, size_t bytes) {
  return Around(DriverCallArgs(DriverCall::kMemUnmap, address, bytes),
                [&] { return base_->MemUnmap(address, bytes); });
}

DriverResult DriverWrapper::MemSetAccess(DevicePtr address, size_t bytes,
                                         const AccessDesc* descs,
                                         size_t count) {
  return Around(
      DriverCallArgs(DriverCall::kMemSetAccess, address, bytes, descs, count),
      [&] { return base_->MemSetAccess(address, bytes, descs, count); });
}

DriverResult DriverWrapper::MemGetAccess(AccessFlags* flags,
                                         const MemLocation* location,
                                         DevicePtr address) {
  return Around(
      DriverCallArgs(DriverCall::kMemGetAccess, flags, location, address),
      [&] { return base_->MemGetAccess(flags, location, address); });
}

DriverResult DriverWrapper::MemRetainAllocationHandle(PhysicalHandle* handle,
                                                      DevicePtr address) {
  return Around(
      DriverCallArgs(DriverCall::kMemRetainAllocationHandle, handle, address),
      [&] { return base_->MemRetainAllocationHandle(handle, address); });
}

DriverResult DriverWrapper::MemGetAllocationPropertiesFromHandle(
    AllocationProp* prop, PhysicalHandle handle) {
  return Around(
      DriverCallArgs(DriverCall::kMemGetAllocationPropertiesFromHandle, prop,
                     handle),
      [&] {
        return base_->MemGetAllocationPropertiesFromHandle(prop, handle);
      });
}

DriverResult DriverWrapper::MemExportToShareableHandle(void* shareable,
                                                       PhysicalHandle handle,
                                                       ShareableHandleType type,
                                                       uint64_t flags) {
  return Around(DriverCallArgs(DriverCall::kMemExportToShareableHandle,
                               shareable, handle, type, flags),
                [&] {
                  return base_->MemExportToShareableHandle(shareable, handle,
                                                           type, flags);
                });
}

DriverResult DriverWrapper::MemImportFromShareableHandle(
    PhysicalHandle* handle, void* shareable, ShareableHandleType type) {
  return Around(DriverCallArgs(DriverCall::kMemImportFromShareableHandle,
                               handle, shareable, type),
                [&] {
                  return base_->MemImportFromShareableHandle(handle, shareable,
                                                             type);
                });
}

DriverResult DriverWrapper::MemGetAddressRange(DevicePtr* base, size_t* bytes,
                                               DevicePtr address) {
  return Around(
      DriverCallArgs(DriverCall::kMemGetAddressRange, base, bytes, address),
      [&] { return base_->MemGetAddressRange(base, bytes, address); });
}

DriverResult DriverWrapper::PointerGetAttribute(void* data,
                                                PointerAttribute attribute,
                                                DevicePtr address) {
  return Around(
      DriverCallArgs(DriverCall::kPointerGetAttribute, data, attribute,
                     address),
      [&] { return base_->PointerGetAttribute(data, attribute, address); });
}

DriverResult DriverWrapper::MemGetInfo(size_t* free_bytes,
                                       size_t* total_bytes) {
  return Around(
      DriverCallArgs(DriverCall::kMemGetInfo, free_bytes, total_bytes),
      [&] { return base_->MemGetInfo(free_bytes, total_bytes); });
}

DriverResult DriverWrapper::MemAlloc(DevicePtr* address, size_t bytes) {
  return Around(DriverCallArgs(DriverCall::kMemAlloc, address, bytes),
                [&] { return base_->MemAlloc(address, bytes); });
}

DriverResult DriverWrapper::MemFree(DevicePtr address) {
  return Around(DriverCallArgs(DriverCall::kMemFree, address),
                [&] { return base_->MemFree(address); });
}

DriverResult DriverWrapper::MemcpyDtoDAsync(DevicePtr dst, DevicePtr src,
                                            size_t bytes, StreamHandle stream) {
  return Around(
      DriverCallArgs(DriverCall::kMemcpyDtoDAsync, dst, src, bytes, stream),
      [&] { return base_->MemcpyDtoDAsync(dst, src, bytes, stream); });
}

DriverResult DriverWrapper::MemcpyHtoDAsync(DevicePtr dst, const void* src,
                                            size_t bytes, StreamHandle stream) {
  return Around(
      DriverCallArgs(DriverCall::kMemcpyHtoDAsync, dst, src, bytes, stream),
      [&] { return base_->MemcpyHtoDAsync(dst, src, bytes, stream); });
}

DriverResult DriverWrapper::MemcpyDtoHAsync(void* dst, DevicePtr src,
                                            size_t bytes, StreamHandle stream) {
  return Around(
      DriverCallArgs(DriverCall::kMemcpyDtoHAsync, dst, src, bytes, stream),
      [&] { return base_->MemcpyDtoHAsync(dst, src, bytes, stream); });
}

DriverResult DriverWrapper::MemsetD8Async(DevicePtr dst, uint8_t value,
                                          size_t bytes, StreamHandle stream) {
  return Around(
      DriverCallArgs(DriverCall::kMemsetD8Async, dst, value, bytes, stream),
      [&] { return base_->MemsetD8Async(dst, value, bytes, stream); });
}

DriverResult DriverWrapper::StreamCreate(StreamHandle* stream, uint32_t flags) {
  return Around(DriverCallArgs(DriverCall::kStreamCreate, stream, flags),
                [&] { return base_->StreamCreate(stream, flags); });
}

DriverResult DriverWrapper::StreamDestroy(StreamHandle stream) {
  return Around(DriverCallArgs(DriverCall::kStreamDestroy, stream),
                [&] { return base_->StreamDestroy(stream); });
}

DriverResult DriverWrapper::StreamQuery(StreamHandle stream) {
  return Around(DriverCallArgs(DriverCall::kStreamQuery, stream),
                [&] { return base_->StreamQuery(stream); });
}

DriverResult DriverWrapper::StreamSynchronize(StreamHandle stream) {
  return Around(DriverCallArgs(DriverCall::kStreamSynchronize, stream),
                [&] { return base_->StreamSynchronize(stream); });
}

DriverResult DriverWrapper::StreamGetId(StreamHandle stream, uint64_t* id) {
  return Around(DriverCallArgs(DriverCall::kStreamGetId, stream, id),
                [&] { return base_->StreamGetId(stream, id); });
}

DriverResult DriverWrapper::StreamIsCapturing(StreamHandle stream,
                                              CaptureStatus* status) {
  return Around(DriverCallArgs(DriverCall::kStreamIsCapturing, stream, status),
                [&] { return base_->StreamIsCapturing(stream, status); });
}

DriverResult DriverWrapper::StreamWaitEvent(StreamHandle stream,
                                            EventHandle event, uint32_t flags) {
  return Around(
      DriverCallArgs(DriverCall::kStreamWaitEvent, stream, event, flags),
      [&] { return base_->StreamWaitEvent(stream, event, flags); });
}

DriverResult DriverWrapper::EventCreate(EventHandle* event, uint32_t flags) {
  return Around(DriverCallArgs(DriverCall::kEventCreate, event, flags),
                [&] { return base_->EventCreate(event, flags); });
}

DriverResult DriverWrapper::EventDestroy(EventHandle event) {
  return Around(DriverCallArgs(DriverCall::kEventDestroy, event),
                [&] { return base_->EventDestroy(event); });
}

DriverResult DriverWrapper::EventRecord(EventHandle event,
                                        StreamHandle stream) {
  return Around(DriverCallArgs(DriverCall::kEventRecord, event, stream),
                [&] { return base_->EventRecord(event, stream); });
}

DriverResult DriverWrapper::EventQuery(EventHandle event) {
  return Around(DriverCallArgs(DriverCall::kEventQuery, event),
                [&] { return base_->EventQuery(event); });
}

DriverResult DriverWrapper::EventSynchronize(EventHandle event) {
  return Around(DriverCallArgs(DriverCall::kEventSynchronize, event),
                [&] { return base_->EventSynchronize(event); });
}

DriverResult DriverWrapper::CtxSynchronize() {
  return Around(DriverCallArgs(DriverCall::kCtxSynchronize),
                [&] { return base_->CtxSynchronize(); });
}

DriverResult DriverWrapper::StreamWaitValue32(StreamHandle stream,
                                              DevicePtr address, uint32_t value,
                                              uint32_t flags) {
  return Around(
      DriverCallArgs(DriverCall::kStreamWaitValue32, stream, address, value,
                     flags),
      [&] { return base_->StreamWaitValue32(stream, address, value, flags); });
}

DriverResult DriverWrapper::StreamWaitValue64(StreamHandle stream,
                                              DevicePtr address, uint64_t value,
                                              uint32_t flags) {
  return Around(
      DriverCallArgs(DriverCall::kStreamWaitValue64, stream, address, value,
                     flags),
      [&] { return base_->StreamWaitValue64(stream, address, value, flags); });
}

DriverResult DriverWrapper::StreamWriteValue32(StreamHandle stream,
                                               DevicePtr address,
                                               uint32_t value, uint32_t flags) {
  return Around(
      DriverCallArgs(DriverCall::kStreamWriteValue32, stream, address, value,
                     flags),
      [&] { return base_->StreamWriteValue32(stream, address, value, flags); });
}

DriverResult DriverWrapper::StreamWriteValue64(StreamHandle stream,
                                               DevicePtr address,
                                               uint64_t value, uint32_t flags) {
  return Around(
      DriverCallArgs(DriverCall::kStreamWriteValue64, stream, address, value,
                     flags),
      [&] { return base_->StreamWriteValue64(stream, address, value, flags); });
}

DriverResult DriverWrapper::LaunchHostFunc(StreamHandle stream,
                                           HostFunction function,
                                           void* user_data) {
  return Around(
      DriverCallArgs(DriverCall::kLaunchHostFunc, stream, function, user_data),
      [&] { return base_->LaunchHostFunc(stream, function, user_data); });
}

DriverResult DriverWrapper::StreamBeginCapture(StreamHandle stream,
                                               CaptureMode mode) {
  return Around(DriverCallArgs(DriverCall::kStreamBeginCapture, stream, mode),
                [&] { return base_->StreamBeginCapture(stream, mode); });
}

DriverResult DriverWrapper::StreamEndCapture(StreamHandle stream,
                                             GraphHandle* graph) {
  return Around(DriverCallArgs(DriverCall::kStreamEndCapture, stream, graph),
                [&] { return base_->StreamEndCapture(stream, graph); });
}

DriverResult DriverWrapper::ThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  return Around(
      DriverCallArgs(DriverCall::kThreadExchangeStreamCaptureMode, mode),
      [&] { return base_->ThreadExchangeStreamCaptureMode(mode); });
}

DriverResult DriverWrapper::GraphInstantiate(GraphExecHandle* exec,
                                             GraphHandle graph,
                                             uint64_t flags) {
  return Around(
      DriverCallArgs(DriverCall::kGraphInstantiate, exec, graph, flags),
      [&] { return base_->GraphInstantiate(exec, graph, flags); });
}

DriverResult DriverWrapper::GraphLaunch(GraphExecHandle exec,
                                        StreamHandle stream) {
  return Around(DriverCallArgs(DriverCall::kGraphLaunch, exec, stream),
                [&] { return base_->GraphLaunch(exec, stream); });
}

DriverResult DriverWrapper::GraphExecDestroy(GraphExecHandle exec) {
  return Around(DriverCallArgs(DriverCall::kGraphExecDestroy, exec),
                [&] { return base_->GraphExecDestroy(exec); });
}

DriverResult DriverWrapper::GraphDestroy(GraphHandle graph) {
  return Around(DriverCallArgs(DriverCall::kGraphDestroy, graph),
                [&] { return base_->GraphDestroy(graph); });
}

}  // namespace firn

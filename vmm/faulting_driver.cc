// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/faulting_driver.h"

#include <cstddef>

namespace firn {

void FaultingDriver::FailNth(uint64_t n, DriverResult result) {
  Fault fault;
  fault.calls_before = n;
  fault.result = result;
  Add(fault);
}

void FaultingDriver::FailFrom(uint64_t n, DriverResult result) {
  Fault fault;
  fault.calls_before = n;
  fault.lasting = true;
  fault.result = result;
  Add(fault);
}

void FaultingDriver::FailNthOf(DriverCall kind, uint64_t n,
                               DriverResult result) {
  Fault fault;
  fault.any_kind = false;
  fault.kind = kind;
  fault.calls_before = n;
  fault.result = result;
  Add(fault);
}

void FaultingDriver::Reset() {
  const MutexLock lock(&mutex_);
  faults_.clear();
  calls_ = 0;
  failures_ = 0;
}

uint64_t FaultingDriver::calls() const {
  const MutexLock lock(&mutex_);
  return calls_;
}

uint64_t FaultingDriver::failures() const {
  const MutexLock lock(&mutex_);
  return failures_;
}

void FaultingDriver::Add(const Fault& fault) {
  const MutexLock lock(&mutex_);
  faults_.push_back(fault);
}

DriverResult FaultingDriver::Admit(DriverCall kind) {
  const MutexLock lock(&mutex_);
  ++calls_;
  DriverResult result = DriverResult::kSuccess;
  // Every order counts the call, also those that another one overrides.
  for (size_t i = 0; i < faults_.size();) {
    Fault& fault = faults_[i];
    if (!fault.any_kind && fault.kind != kind) {
      ++i;
      continue;
    }
    if (fault.calls_before > 0) {
      --fault.calls_before;
      ++i;
      continue;
    }
    if (result == DriverResult::kSuccess) result = fault.result;
    if (fault.lasting) {
      ++i;
    } else {
      faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (result != DriverResult::kSuccess) ++failures_;
  return result;
}

DriverResult FaultingDriver::MemGetAllocationGranularity(
    size_t* granularity_bytes, const AllocationProp* prop,
    GranularityKind kind) {
  return Attempt(DriverCall::kMemGetAllocationGranularity, [&] {
    return base()->MemGetAllocationGranularity(granularity_bytes, prop, kind);
  });
}

DriverResult FaultingDriver::MemAddressReserve(DevicePtr* address, size_t bytes,
                                               size_t alignment_bytes,
                                               DevicePtr hint, uint64_t flags) {
  return Attempt(DriverCall::kMemAddressReserve, [&] {
    return base()->MemAddressReserve(address, bytes, alignment_bytes, hint,
                                     flags);
  });
}

DriverResult FaultingDriver::MemAddressFree(DevicePtr address, size_t bytes) {
  return Attempt(DriverCall::kMemAddressFree,
                 [&] { return base()->MemAddressFree(address, bytes); });
}

DriverResult FaultingDriver::MemCreate(PhysicalHandle* handle, size_t bytes,
                                       const AllocationProp* prop,
                                       uint64_t flags) {
  return Attempt(DriverCall::kMemCreate,
                 [&] { return base()->MemCreate(handle, bytes, prop, flags); });
}

DriverResult FaultingDriver::MemRelease(PhysicalHandle handle) {
  return Attempt(DriverCall::kMemRelease,
                 [&] { return base()->MemRelease(handle); });
}

DriverResult FaultingDriver::MemMap(DevicePtr address, size_t bytes,
                                    size_t offset_bytes, PhysicalHandle handle,
                                    uint64_t flags) {
  return Attempt(DriverCall::kMemMap, [&] {
    return base()->MemMap(address, bytes, offset_bytes, handle, flags);
  });
}

DriverResult FaultingDriver::MemUnmap(DevicePtr address, size_t bytes) {
  return Attempt(DriverCall::kMemUnmap,
                 [&] { return base()->MemUnmap(address, bytes); });
}

DriverResult FaultingDriver::MemSetAccess(DevicePtr address, size_t bytes,
                                          const AccessDesc* descs,
                                          size_t count) {
  return Attempt(DriverCall::kMemSetAccess, [&] {
    return base()->MemSetAccess(address, bytes, descs, count);
  });
}

DriverResult FaultingDriver::MemGetAccess(AccessFlags* flags,
                                          const MemLocation* location,
                                          DevicePtr address) {
  return Attempt(DriverCall::kMemGetAccess, [&] {
    return base()->MemGetAccess(flags, location, address);
  });
}

DriverResult FaultingDriver::MemRetainAllocationHandle(PhysicalHandle* handle,
                                                       DevicePtr address) {
  return Attempt(DriverCall::kMemRetainAllocationHandle, [&] {
    return base()->MemRetainAllocationHandle(handle, address);
  });
}

DriverResult FaultingDriver::MemGetInfo(size_t* free_bytes,
                                        size_t* total_bytes) {
  return Attempt(DriverCall::kMemGetInfo,
                 [&] { return base()->MemGetInfo(free_bytes, total_bytes); });
}

DriverResult FaultingDriver::MemcpyDtoDAsync(DevicePtr dst, DevicePtr src,
                                             size_t bytes,
                                             StreamHandle stream) {
  return Attempt(DriverCall::kMemcpyDtoDAsync, [&] {
    return base()->MemcpyDtoDAsync(dst, src, bytes, stream);
  });
}

DriverResult FaultingDriver::MemcpyHtoDAsync(DevicePtr dst, const void* src,
                                             size_t bytes,
                                             StreamHandle stream) {
  return Attempt(DriverCall::kMemcpyHtoDAsync, [&] {
    return base()->MemcpyHtoDAsync(dst, src, bytes, stream);
  });
}

DriverResult FaultingDriver::MemcpyDtoHAsync(void* dst, DevicePtr src,
                                             size_t bytes,
                                             StreamHandle stream) {
  return Attempt(DriverCall::kMemcpyDtoHAsync, [&] {
    return base()->MemcpyDtoHAsync(dst, src, bytes, stream);
  });
}

DriverResult FaultingDriver::MemsetD8Async(DevicePtr dst, uint8_t value,
                                           size_t bytes, StreamHandle stream) {
  return Attempt(DriverCall::kMemsetD8Async, [&] {
    return base()->MemsetD8Async(dst, value, bytes, stream);
  });
}

DriverResult FaultingDriver::StreamCreate(StreamHandle* stream,
                                          uint32_t flags) {
  return Attempt(DriverCall::kStreamCreate,
                 [&] { return base()->StreamCreate(stream, flags); });
}

DriverResult FaultingDriver::StreamDestroy(StreamHandle stream) {
  return Attempt(DriverCall::kStreamDestroy,
                 [&] { return base()->StreamDestroy(stream); });
}

DriverResult FaultingDriver::StreamQuery(StreamHandle stream) {
  return Attempt(DriverCall::kStreamQuery,
                 [&] { return base()->StreamQuery(stream); });
}

DriverResult FaultingDriver::StreamSynchronize(StreamHandle stream) {
  return Attempt(DriverCall::kStreamSynchronize,
                 [&] { return base()->StreamSynchronize(stream); });
}

DriverResult FaultingDriver::StreamGetId(StreamHandle stream, uint64_t* id) {
  return Attempt(DriverCall::kStreamGetId,
                 [&] { return base()->StreamGetId(stream, id); });
}

DriverResult FaultingDriver::StreamIsCapturing(StreamHandle stream,
                                               CaptureStatus* status) {
  return Attempt(DriverCall::kStreamIsCapturing,
                 [&] { return base()->StreamIsCapturing(stream, status); });
}

DriverResult FaultingDriver::StreamWaitEvent(StreamHandle stream,
                                             EventHandle event,
                                             uint32_t flags) {
  return Attempt(DriverCall::kStreamWaitEvent,
                 [&] { return base()->StreamWaitEvent(stream, event, flags); });
}

DriverResult FaultingDriver::EventCreate(EventHandle* event, uint32_t flags) {
  return Attempt(DriverCall::kEventCreate,
                 [&] { return base()->EventCreate(event, flags); });
}

DriverResult FaultingDriver::EventDestroy(EventHandle event) {
  return Attempt(DriverCall::kEventDestroy,
                 [&] { return base()->EventDestroy(event); });
}

DriverResult FaultingDriver::EventRecord(EventHandle event,
                                         StreamHandle stream) {
  return Attempt(DriverCall::kEventRecord,
                 [&] { return base()->EventRecord(event, stream); });
}

DriverResult FaultingDriver::EventQuery(EventHandle event) {
  return Attempt(DriverCall::kEventQuery,
                 [&] { return base()->EventQuery(event); });
}

DriverResult FaultingDriver::EventSynchronize(EventHandle event) {
  return Attempt(DriverCall::kEventSynchronize,
                 [&] { return base()->EventSynchronize(event); });
}

DriverResult FaultingDriver::CtxSynchronize() {
  return Attempt(DriverCall::kCtxSynchronize,
                 [&] { return base()->CtxSynchronize(); });
}

}  // namespace firn

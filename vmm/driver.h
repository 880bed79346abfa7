// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The one seam to the platform: the calls of the CUDA Driver API that firn
// makes, in the driver's own types and semantics. Implementations: CudaDriver
// (libcuda.so.1, opened at run time), CpuDriver (real memory and a real MMU,
// no GPU), and wrappers that count or fail calls.

#ifndef FIRN_VMM_DRIVER_H_
#define FIRN_VMM_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "firn/vmm/driver_types.h"

namespace firn {

// What a driver is, for statistics and messages.
struct DriverIdentity {
  std::string backend;      // "cuda" or "cpu"
  std::string device_name;  // as the device calls itself
  int device_ordinal = 0;
  int driver_version = 0;  // 1000 * major + 10 * minor
};

// One device of one driver. The contract of each call is that of the CUDA call
// of the same name (docs/design.md, "The driver seam", lists the rules firn
// relies on). Preconditions common to the calls on memory: addresses and byte
// counts are multiples of the minimum granularity; an access needs a mapping
// and an access right. Results are CUDA's error codes; kIllegalAddress is
// sticky: once returned, the device is lost and every later call returns it.
//
// Contexts are the implementation's business: a call acts on this object's
// device whatever is current on the calling thread, and leaves that unchanged.
//
// Thread safety: all methods may be called from any thread at any time.
class Driver {
 public:
  virtual ~Driver() = default;

  virtual DriverIdentity identity() const = 0;

  // --- Virtual memory management ---
  virtual DriverResult MemGetAllocationGranularity(size_t* granularity_bytes,
                                                   const AllocationProp* prop,
                                                   GranularityKind kind) = 0;
  // `alignment_bytes` is a power of two or 0; `hint` is only a hint.
  virtual DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                         size_t alignment_bytes, DevicePtr hint,
                                         uint64_t flags) = 0;
  virtual DriverResult MemAddressFree(DevicePtr address, size_t bytes) = 0;
  virtual DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                                 const AllocationProp* prop,
                                 uint64_t flags) = 0;
  // Legal while mapped: memory goes when handle and mappings are all gone.
  virtual DriverResult MemRelease(PhysicalHandle handle) = 0;
  virtual DriverResult MemMap(DevicePtr address, size_t bytes,
                              size_t offset_bytes, PhysicalHandle handle,
                              uint64_t flags) = 0;
  // The range must consist of whole, present mappings. Neither reliably waits
  // for running work nor reliably returns without waiting.
  virtual DriverResult MemUnmap(DevicePtr address, size_t bytes) = 0;
  virtual DriverResult MemSetAccess(DevicePtr address, size_t bytes,
                                    const AccessDesc* descs, size_t count) = 0;
  virtual DriverResult MemGetAccess(AccessFlags* flags,
                                    const MemLocation* location,
                                    DevicePtr address) = 0;
  // Returns the handle used to map `address`; adds a reference to it, to be
  // paired with MemRelease.
  virtual DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                                 DevicePtr address) = 0;
  virtual DriverResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) = 0;

  // --- Copies and fills, in stream order ---
  virtual DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src,
                                       size_t bytes, StreamHandle stream) = 0;
  virtual DriverResult MemcpyHtoDAsync(DevicePtr dst, const void* src,
                                       size_t bytes, StreamHandle stream) = 0;
  virtual DriverResult MemcpyDtoHAsync(void* dst, DevicePtr src, size_t bytes,
                                       StreamHandle stream) = 0;
  virtual DriverResult MemsetD8Async(DevicePtr dst, uint8_t value, size_t bytes,
                                     StreamHandle stream) = 0;

  // --- Streams and events ---
  virtual DriverResult StreamCreate(StreamHandle* stream, uint32_t flags) = 0;
  // Returns at once; work already queued still completes.
  virtual DriverResult StreamDestroy(StreamHandle stream) = 0;
  virtual DriverResult StreamQuery(StreamHandle stream) = 0;
  virtual DriverResult StreamSynchronize(StreamHandle stream) = 0;
  // An id that no other stream of the process ever has, unlike the handle.
  virtual DriverResult StreamGetId(StreamHandle stream, uint64_t* id) = 0;
  virtual DriverResult StreamIsCapturing(StreamHandle stream,
                                         CaptureStatus* status) = 0;
  virtual DriverResult StreamWaitEvent(StreamHandle stream, EventHandle event,
                                       uint32_t flags) = 0;
  virtual DriverResult EventCreate(EventHandle* event, uint32_t flags) = 0;
  virtual DriverResult EventDestroy(EventHandle event) = 0;
  virtual DriverResult EventRecord(EventHandle event, StreamHandle stream) = 0;
  // kSuccess when done (or never recorded), kNotReady while pending.
  virtual DriverResult EventQuery(EventHandle event) = 0;
  virtual DriverResult EventSynchronize(EventHandle event) = 0;
  // Waits for all work of the device's context.
  virtual DriverResult CtxSynchronize() = 0;
};

// Forwards every call to another driver; derive to change a part.
class DriverWrapper : public Driver {
 public:
  // Does not own `base`, which must outlive this object.
  explicit DriverWrapper(Driver* base) : base_(base) {}

  DriverIdentity identity() const override { return base_->identity(); }
  DriverResult MemGetAllocationGranularity(size_t* granularity_bytes,
                                           const AllocationProp* prop,
                                           GranularityKind kind) override {
    return base_->MemGetAllocationGranularity(granularity_bytes, prop, kind);
  }
  DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) override {
    return base_->MemAddressReserve(address, bytes, alignment_bytes, hint,
                                    flags);
  }
  DriverResult MemAddressFree(DevicePtr address, size_t bytes) override {
    return base_->MemAddressFree(address, bytes);
  }
  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override {
    return base_->MemCreate(handle, bytes, prop, flags);
  }
  DriverResult MemRelease(PhysicalHandle handle) override {
    return base_->MemRelease(handle);
  }
  DriverResult MemMap(DevicePtr address, size_t bytes, size_t offset_bytes,
                      PhysicalHandle handle, uint64_t flags) override {
    return base_->MemMap(address, bytes, offset_bytes, handle, flags);
  }
  DriverResult MemUnmap(DevicePtr address, size_t bytes) override {
    return base_->MemUnmap(address, bytes);
  }
  DriverResult MemSetAccess(DevicePtr address, size_t bytes,
                            const AccessDesc* descs, size_t count) override {
    return base_->MemSetAccess(address, bytes, descs, count);
  }
  DriverResult MemGetAccess(AccessFlags* flags, const MemLocation* location,
                            DevicePtr address) override {
    return base_->MemGetAccess(flags, location, address);
  }
  DriverResult MemRetainAllocationHandle(PhysicalHandle* handle,
                                         DevicePtr address) override {
    return base_->MemRetainAllocationHandle(handle, address);
  }
  DriverResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) override {
    return base_->MemGetInfo(free_bytes, total_bytes);
  }
  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    return base_->MemcpyDtoDAsync(dst, src, bytes, stream);
  }
  DriverResult MemcpyHtoDAsync(DevicePtr dst, const void* src, size_t bytes,
                               StreamHandle stream) override {
    return base_->MemcpyHtoDAsync(dst, src, bytes, stream);
  }
  DriverResult MemcpyDtoHAsync(void* dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    return base_->MemcpyDtoHAsync(dst, src, bytes, stream);
  }
  DriverResult MemsetD8Async(DevicePtr dst, uint8_t value, size_t bytes,
                             StreamHandle stream) override {
    return base_->MemsetD8Async(dst, value, bytes, stream);
  }
  DriverResult StreamCreate(StreamHandle* stream, uint32_t flags) override {
    return base_->StreamCreate(stream, flags);
  }
  DriverResult StreamDestroy(StreamHandle stream) override {
    return base_->StreamDestroy(stream);
  }
  DriverResult StreamQuery(StreamHandle stream) override {
    return base_->StreamQuery(stream);
  }
  DriverResult StreamSynchronize(StreamHandle stream) override {
    return base_->StreamSynchronize(stream);
  }
  DriverResult StreamGetId(StreamHandle stream, uint64_t* id) override {
    return base_->StreamGetId(stream, id);
  }
  DriverResult StreamIsCapturing(StreamHandle stream,
                                 CaptureStatus* status) override {
    return base_->StreamIsCapturing(stream, status);
  }
  DriverResult StreamWaitEvent(StreamHandle stream, EventHandle event,
                               uint32_t flags) override {
    return base_->StreamWaitEvent(stream, event, flags);
  }
  DriverResult EventCreate(EventHandle* event, uint32_t flags) override {
    return base_->EventCreate(event, flags);
  }
  DriverResult EventDestroy(EventHandle event) override {
    return base_->EventDestroy(event);
  }
  DriverResult EventRecord(EventHandle event, StreamHandle stream) override {
    return base_->EventRecord(event, stream);
  }
  DriverResult EventQuery(EventHandle event) override {
    return base_->EventQuery(event);
  }
  DriverResult EventSynchronize(EventHandle event) override {
    return base_->EventSynchronize(event);
  }
  DriverResult CtxSynchronize() override { return base_->CtxSynchronize(); }

 protected:
  Driver* base() const { return base_; }

 private:
  Driver* base_;
};

}  // namespace firn

#endif  // FIRN_VMM_DRIVER_H_

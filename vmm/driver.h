// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The one seam to the platform: the calls of the CUDA Driver API that firn
// makes, in the driver's own types and semantics. Implementations: CudaDriver
// (libcuda.so.1, opened at run time), CpuDriver (real memory and a real MMU,
// no GPU), and wrappers (vmm/driver_wrapper.h) that count, log or fail calls.

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
  // Why the device is lost: the first call that returned a sticky error, and
  // the error. Empty while no call has.
  virtual std::string loss() const = 0;

  // --- The device ---
  virtual DriverResult DeviceGetCount(int32_t* count) = 0;
  virtual DriverResult DeviceGetAttribute(int32_t* value,
                                          DeviceAttribute attribute) = 0;
  // Whether this device can be given access to memory of the device `peer`.
  virtual DriverResult DeviceCanAccessPeer(int32_t* can_access,
                                           int32_t peer) = 0;

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
  virtual DriverResult MemGetAllocationPropertiesFromHandle(
      AllocationProp* prop, PhysicalHandle handle) = 0;
  // Writes a file descriptor (int, owned by the caller) to `shareable` for
  // kPosixFileDescriptor. The type must have been asked for at creation.
  virtual DriverResult MemExportToShareableHandle(void* shareable,
                                                  PhysicalHandle handle,
                                                  ShareableHandleType type,
                                                  uint64_t flags) = 0;
  // `shareable` is the descriptor's value for kPosixFileDescriptor; it stays
  // the caller's. Each import is paired with a MemRelease.
  virtual DriverResult MemImportFromShareableHandle(
      PhysicalHandle* handle, void* shareable, ShareableHandleType type) = 0;
  // The mapping that `address` is in; MemGetAddressRange of a reservation is
  // PointerGetAttribute's business.
  virtual DriverResult MemGetAddressRange(DevicePtr* base, size_t* bytes,
                                          DevicePtr address) = 0;
  // `data` has the attribute's type.
  virtual DriverResult PointerGetAttribute(void* data,
                                           PointerAttribute attribute,
                                           DevicePtr address) = 0;
  virtual DriverResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) = 0;

  // --- Memory in one call, which devices without the above have as well ---
  // Any count of bytes but 0, at an address of its own, which this device
  // alone may access. May wait for work in flight.
  virtual DriverResult MemAlloc(DevicePtr* address, size_t bytes) = 0;
  // What MemAlloc returned, and nothing else. Waits for work of the device that
  // was queued before.
  virtual DriverResult MemFree(DevicePtr address) = 0;

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

  // --- Values and host functions, in stream order ---
  // `address` is device memory, aligned to the value. Flags: kWaitValue...,
  // kWriteValue...
  virtual DriverResult StreamWaitValue32(StreamHandle stream, DevicePtr address,
                                         uint32_t value, uint32_t flags) = 0;
  virtual DriverResult StreamWaitValue64(StreamHandle stream, DevicePtr address,
                                         uint64_t value, uint32_t flags) = 0;
  virtual DriverResult StreamWriteValue32(StreamHandle stream,
                                          DevicePtr address, uint32_t value,
                                          uint32_t flags) = 0;
  virtual DriverResult StreamWriteValue64(StreamHandle stream,
                                          DevicePtr address, uint64_t value,
                                          uint32_t flags) = 0;
  // `function` must not call the driver: every call it makes returns
  // kNotPermitted.
  virtual DriverResult LaunchHostFunc(StreamHandle stream,
                                      HostFunction function,
                                      void* user_data) = 0;

  // --- Capture and graphs ---
  virtual DriverResult StreamBeginCapture(StreamHandle stream,
                                          CaptureMode mode) = 0;
  // `graph` is null if the capture was invalidated.
  virtual DriverResult StreamEndCapture(StreamHandle stream,
                                        GraphHandle* graph) = 0;
  // Gives the calling thread the mode `*mode`, and `*mode` the one it had.
  virtual DriverResult ThreadExchangeStreamCaptureMode(CaptureMode* mode) = 0;
  virtual DriverResult GraphInstantiate(GraphExecHandle* exec,
                                        GraphHandle graph, uint64_t flags) = 0;
  virtual DriverResult GraphLaunch(GraphExecHandle exec,
                                   StreamHandle stream) = 0;
  virtual DriverResult GraphExecDestroy(GraphExecHandle exec) = 0;
  virtual DriverResult GraphDestroy(GraphHandle graph) = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_DRIVER_H_

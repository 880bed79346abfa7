// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A driver whose calls fail on demand, for tests of what happens when they do.

#ifndef FIRN_VMM_FAULTING_DRIVER_H_
#define FIRN_VMM_FAULTING_DRIVER_H_

#include <cstdint>
#include <vector>

#include "firn/vmm/driver.h"
#include "firn/vmm/mutex.h"

namespace firn {

// The calls of Driver that can fail: all but identity().
enum class DriverCall {
  kMemGetAllocationGranularity,
  kMemAddressReserve,
  kMemAddressFree,
  kMemCreate,
  kMemRelease,
  kMemMap,
  kMemUnmap,
  kMemSetAccess,
  kMemGetAccess,
  kMemRetainAllocationHandle,
  kMemGetInfo,
  kMemcpyDtoDAsync,
  kMemcpyHtoDAsync,
  kMemcpyDtoHAsync,
  kMemsetD8Async,
  kStreamCreate,
  kStreamDestroy,
  kStreamQuery,
  kStreamSynchronize,
  kStreamGetId,
  kStreamIsCapturing,
  kStreamWaitEvent,
  kEventCreate,
  kEventDestroy,
  kEventRecord,
  kEventQuery,
  kEventSynchronize,
  kCtxSynchronize,
};

// Every call that can fail is counted, and either passed on or failed: a
// failed call returns the chosen result and does not reach the base driver, so
// it has no effect. Where several orders ask for the same call to fail, the
// oldest one decides. Thread safety: as Driver.
class FaultingDriver : public DriverWrapper {
 public:
  // Does not own `base`.
  explicit FaultingDriver(Driver* base) : DriverWrapper(base) {}

  // The `n`-th call from now on fails (0 is the next); later ones pass.
  void FailNth(uint64_t n, DriverResult result);
  // The `n`-th call from now on and all after it fail: with a sticky result, a
  // device that is lost for good.
  void FailFrom(uint64_t n, DriverResult result);
  // Of the calls of this kind, the `n`-th from now on fails.
  void FailNthOf(DriverCall kind, uint64_t n, DriverResult result);
  // Forgets all orders and counts from 0.
  void Reset();

  // Calls seen since Reset, and how many of them were made to fail.
  uint64_t calls() const;
  uint64_t failures() const;

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
  DriverResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) override;
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

 private:
  // An order to fail calls, given by FailNth and its like.
  struct Fault {
    bool any_kind = true;
    DriverCall kind = DriverCall::kMemGetAllocationGranularity;
    uint64_t calls_before = 0;  // that still pass
    bool lasting = false;       // not used up by one failure
    DriverResult result = DriverResult::kSuccess;
  };

  // Counts one call; kSuccess lets it pass.
  DriverResult Admit(DriverCall kind);
  void Add(const Fault& fault);

  // The whole of an override: fails the call or makes it.
  template <typename Call>
  DriverResult Attempt(DriverCall kind, const Call& call) {
    const DriverResult result = Admit(kind);
    return result == DriverResult::kSuccess ? call() : result;
  }

  mutable Mutex mutex_;
  std::vector<Fault> faults_ ABSL_GUARDED_BY(mutex_);
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace firn

#endif  // FIRN_VMM_FAULTING_DRIVER_H_

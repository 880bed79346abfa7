// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of a device's chain of wrappers: all contexts of a device share the
// wrappers, which count, log and fail the calls of the device, and only here
// part ways. Private to vmm/cpu/libcuda.

#ifndef FIRN_VMM_CPU_LIBCUDA_CONTEXT_DRIVER_H_
#define FIRN_VMM_CPU_LIBCUDA_CONTEXT_DRIVER_H_

#include <cstddef>
#include <cstdint>

#include "firn/vmm/driver.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/driver_wrapper.h"

namespace firn::libcuda {

// Passes the calls that depend on the context to the driver of the one that the
// calling thread's call acts in, and all others to the primary context's.
class ContextDriver : public DriverWrapper {
 public:
  // Calls of this thread act in the context of `driver`, until the end of the
  // scope.
  class Scope {
   public:
    explicit Scope(Driver* driver);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Driver* const outer_;
  };

  explicit ContextDriver(Driver* primary)
      : DriverWrapper(primary), primary_(primary) {}

  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemcpyHtoDAsync(DevicePtr dst, const void* src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemcpyDtoHAsync(void* dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override;
  DriverResult MemsetD8Async(DevicePtr dst, uint8_t value, size_t bytes,
                             StreamHandle stream) override;
  DriverResult StreamCreate(StreamHandle* stream, uint32_t flags) override;
  DriverResult StreamQuery(StreamHandle stream) override;
  DriverResult StreamSynchronize(StreamHandle stream) override;
  DriverResult StreamGetId(StreamHandle stream, uint64_t* id) override;
  DriverResult StreamIsCapturing(StreamHandle stream,
                                 CaptureStatus* status) override;
  DriverResult StreamWaitEvent(StreamHandle stream, EventHandle event,
                               uint32_t flags) override;
  DriverResult EventCreate(EventHandle* event, uint32_t flags) override;
  DriverResult EventRecord(EventHandle event, StreamHandle stream) override;
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
  DriverResult GraphLaunch(GraphExecHandle exec, StreamHandle stream) override;

 private:
  Driver& acting() const;

  Driver* const primary_;
};

}  // namespace firn::libcuda

#endif  // FIRN_VMM_CPU_LIBCUDA_CONTEXT_DRIVER_H_

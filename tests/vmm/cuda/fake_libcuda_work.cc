// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The fake libcuda.so: what is done in the order of streams.

#include <cstddef>
#include <cstdint>

#include "firn/vmm/driver_types.h"
#include "tests/vmm/cuda/fake_recorder.h"

namespace {

using firn::CaptureMode;
using firn::CaptureStatus;
using firn::DevicePtr;
using firn::DriverResult;
using firn::EventHandle;
using firn::GraphExecHandle;
using firn::GraphHandle;
using firn::HostFunction;
using firn::StreamHandle;
using firn::testing::FakeHandle;
using firn::testing::Give;
using firn::testing::Record;

}  // namespace

extern "C" {

DriverResult cuMemcpyDtoDAsync_v2(DevicePtr dst, DevicePtr src, size_t bytes,
                                  StreamHandle stream) {
  return Record("cuMemcpyDtoDAsync_v2", dst, src, bytes, stream);
}
DriverResult cuMemcpyHtoDAsync_v2(DevicePtr dst, const void* src, size_t bytes,
                                  StreamHandle stream) {
  return Record("cuMemcpyHtoDAsync_v2", dst, src, bytes, stream);
}
DriverResult cuMemcpyDtoHAsync_v2(void* dst, DevicePtr src, size_t bytes,
                                  StreamHandle stream) {
  return Record("cuMemcpyDtoHAsync_v2", dst, src, bytes, stream);
}
DriverResult cuMemsetD8Async(DevicePtr dst, unsigned char value, size_t bytes,
                             StreamHandle stream) {
  return Record("cuMemsetD8Async", dst, value, bytes, stream);
}

DriverResult cuStreamCreate(StreamHandle* stream, uint32_t flags) {
  return Give(Record("cuStreamCreate", flags), stream,
              FakeHandle<StreamHandle>(0x51));
}
DriverResult cuStreamDestroy_v2(StreamHandle stream) {
  return Record("cuStreamDestroy_v2", stream);
}
DriverResult cuStreamQuery(StreamHandle stream) {
  return Record("cuStreamQuery", stream);
}
DriverResult cuStreamSynchronize(StreamHandle stream) {
  return Record("cuStreamSynchronize", stream);
}
DriverResult cuStreamIsCapturing(StreamHandle stream, CaptureStatus* status) {
  return Give(Record("cuStreamIsCapturing", stream), status,
              CaptureStatus::kActive);
}
DriverResult cuStreamWaitEvent(StreamHandle stream, EventHandle event,
                               uint32_t flags) {
  return Record("cuStreamWaitEvent", stream, event, flags);
}
DriverResult cuEventCreate(EventHandle* event, uint32_t flags) {
  return Give(Record("cuEventCreate", flags), event,
              FakeHandle<EventHandle>(0xe1));
}
DriverResult cuEventDestroy_v2(EventHandle event) {
  return Record("cuEventDestroy_v2", event);
}
DriverResult cuEventRecord(EventHandle event, StreamHandle stream) {
  return Record("cuEventRecord", event, stream);
}
DriverResult cuEventQuery(EventHandle event) {
  return Record("cuEventQuery", event);
}
DriverResult cuEventSynchronize(EventHandle event) {
  return Record("cuEventSynchronize", event);
}

DriverResult cuLaunchHostFunc(StreamHandle stream, HostFunction function,
                              void* user_data) {
  return Record("cuLaunchHostFunc", stream, function, user_data);
}

DriverResult cuStreamBeginCapture_v2(StreamHandle stream, CaptureMode mode) {
  return Record("cuStreamBeginCapture_v2", stream, mode);
}
DriverResult cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  return Give(Record("cuStreamEndCapture", stream), graph,
              FakeHandle<GraphHandle>(0x61));
}
DriverResult cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  return Give(Record("cuThreadExchangeStreamCaptureMode", *mode), mode,
              CaptureMode::kThreadLocal);
}
DriverResult cuGraphLaunch(GraphExecHandle exec, StreamHandle stream) {
  return Record("cuGraphLaunch", exec, stream);
}
DriverResult cuGraphExecDestroy(GraphExecHandle exec) {
  return Record("cuGraphExecDestroy", exec);
}
DriverResult cuGraphDestroy(GraphHandle graph) {
  return Record("cuGraphDestroy", graph);
}

// What drivers without cuGetProcAddress do not export.
#if FIRN_FAKE_PROC_ADDRESS > 0
DriverResult cuStreamGetId(StreamHandle stream, uint64_t* id) {
  return Give(Record("cuStreamGetId", stream), id, uint64_t{4711});
}
DriverResult cuStreamWaitValue32_v2(StreamHandle stream, DevicePtr address,
                                    uint32_t value, uint32_t flags) {
  return Record("cuStreamWaitValue32_v2", stream, address, value, flags);
}
DriverResult cuStreamWaitValue64_v2(StreamHandle stream, DevicePtr address,
                                    uint64_t value, uint32_t flags) {
  return Record("cuStreamWaitValue64_v2", stream, address, value, flags);
}
DriverResult cuStreamWriteValue32_v2(StreamHandle stream, DevicePtr address,
                                     uint32_t value, uint32_t flags) {
  return Record("cuStreamWriteValue32_v2", stream, address, value, flags);
}
DriverResult cuStreamWriteValue64_v2(StreamHandle stream, DevicePtr address,
                                     uint64_t value, uint32_t flags) {
  return Record("cuStreamWriteValue64_v2", stream, address, value, flags);
}
DriverResult cuGraphInstantiateWithFlags(GraphExecHandle* exec,
                                         GraphHandle graph, uint64_t flags) {
  return Give(Record("cuGraphInstantiateWithFlags", graph, flags), exec,
              FakeHandle<GraphExecHandle>(0x62));
}
#endif

}  // extern "C"

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/libcuda/context_driver.h"

namespace firn::libcuda {
namespace {

// Of a context that is not primary; null: the primary one of any device.
thread_local Driver* thread_driver = nullptr;

}  // namespace

ContextDriver::Scope::Scope(Driver* driver) : outer_(thread_driver) {
  thread_driver = driver;
}

ContextDriver::Scope::~Scope() { thread_driver = outer_; }

Driver& ContextDriver::acting() const {
  return thread_driver != nullptr ? *thread_driver : *primary_;
}

DriverResult ContextDriver::MemcpyDtoDAsync(DevicePtr dst, DevicePtr src,
                                            size_t bytes, StreamHandle stream) {
  return acting().MemcpyDtoDAsync(dst, src, bytes, stream);
}

DriverResult ContextDriver::MemcpyHtoDAsync(DevicePtr dst, const void* src,
                                            size_t bytes, StreamHandle stream) {
  return acting().MemcpyHtoDAsync(dst, src, bytes, stream);
}

DriverResult ContextDriver::MemcpyDtoHAsync(void* dst, DevicePtr src,
                                            size_t bytes, StreamHandle stream) {
  return acting().MemcpyDtoHAsync(dst, src, bytes, stream);
}

DriverResult ContextDriver::MemsetD8Async(DevicePtr dst, uint8_t value,
                                          size_t bytes, StreamHandle stream) {
  return acting().MemsetD8Async(dst, value, bytes, stream);
}

DriverResult ContextDriver::StreamCreate(StreamHandle* stream, uint32_t flags) {
  return acting().StreamCreate(stream, flags);
}

DriverResult ContextDriver::StreamQuery(StreamHandle stream) {
  return acting().StreamQuery(stream);
}

DriverResult ContextDriver::StreamSynchronize(StreamHandle stream) {
  return acting().StreamSynchronize(stream);
}

DriverResult ContextDriver::StreamGetId(StreamHandle stream, uint64_t* id) {
  return acting().StreamGetId(stream, id);
}

DriverResult ContextDriver::StreamIsCapturing(StreamHandle stream,
                                              CaptureStatus* status) {
  return acting().StreamIsCapturing(stream, status);
}

DriverResult ContextDriver::StreamWaitEvent(StreamHandle stream,
                                            EventHandle event, uint32_t flags) {
  return acting().StreamWaitEvent(stream, event, flags);
}

DriverResult ContextDriver::EventCreate(EventHandle* event, uint32_t flags) {
  return acting().EventCreate(event, flags);
}

DriverResult ContextDriver::EventRecord(EventHandle event,
                                        StreamHandle stream) {
  return acting().EventRecord(event, stream);
}

DriverResult ContextDriver::CtxSynchronize() {
  return acting().CtxSynchronize();
}

DriverResult ContextDriver::StreamWaitValue32(StreamHandle stream,
                                              DevicePtr address, uint32_t value,
                                              uint32_t flags) {
  return acting().StreamWaitValue32(stream, address, value, flags);
}

DriverResult ContextDriver::StreamWaitValue64(StreamHandle stream,
                                              DevicePtr address, uint64_t value,
                                              uint32_t flags) {
  return acting().StreamWaitValue64(stream, address, value, flags);
}

DriverResult ContextDriver::StreamWriteValue32(StreamHandle stream,
                                               DevicePtr address,
                                               uint32_t value, uint32_t flags) {
  return acting().StreamWriteValue32(stream, address, value, flags);
}

DriverResult ContextDriver::StreamWriteValue64(StreamHandle stream,
                                               DevicePtr address,
                                               uint64_t value, uint32_t flags) {
  return acting().StreamWriteValue64(stream, address, value, flags);
}

DriverResult ContextDriver::LaunchHostFunc(StreamHandle stream,
                                           HostFunction function,
                                           void* user_data) {
  return acting().LaunchHostFunc(stream, function, user_data);
}

DriverResult ContextDriver::StreamBeginCapture(StreamHandle stream,
                                               CaptureMode mode) {
  return acting().StreamBeginCapture(stream, mode);
}

DriverResult ContextDriver::StreamEndCapture(StreamHandle stream,
                                             GraphHandle* graph) {
  return acting().StreamEndCapture(stream, graph);
}

DriverResult ContextDriver::GraphLaunch(GraphExecHandle exec,
                                        StreamHandle stream) {
  return acting().GraphLaunch(exec, stream);
}

}  // namespace firn::libcuda

// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exported functions on stream capture and on graphs.

#include "firn/vmm/cpu/libcuda/calls.h"
#include "firn/vmm/cpu/libcuda/process.h"
#include "firn/vmm/cpu/libcuda/symbols.h"

namespace firn::libcuda {

extern "C" {

DriverResult cuStreamBeginCapture_v10010(StreamHandle stream,
                                         CaptureMode mode) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamBeginCapture(s, mode);
  });
}

DriverResult cuStreamEndCapture_v10000(StreamHandle stream,
                                       GraphHandle* graph) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamEndCapture(s, graph);
  });
}

DriverResult cuStreamIsCapturing_v10000(StreamHandle stream,
                                        CaptureStatus* status) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->StreamIsCapturing(s, status);
  });
}

DriverResult cuThreadExchangeStreamCaptureMode_v10010(CaptureMode* mode) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->ThreadExchangeStreamCaptureMode(mode);
  });
}

DriverResult cuGraphInstantiateWithFlags_v11040(GraphExecHandle* exec,
                                                GraphHandle graph,
                                                uint64_t flags) {
  return OnCurrentDevice([&](Process&, const Device& device) {
    return device.front->GraphInstantiate(exec, graph, flags);
  });
}

DriverResult cuGraphLaunch_v10000(GraphExecHandle exec, StreamHandle stream) {
  return OnStream(stream, [&](Process&, const Device& device, StreamHandle s) {
    return device.front->GraphLaunch(exec, s);
  });
}

DriverResult cuGraphExecDestroy_v10000(GraphExecHandle exec) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->GraphExecDestroy(exec);
  });
}

DriverResult cuGraphDestroy_v10000(GraphHandle graph) {
  return OnAnyDevice([&](Process&, const Device& device) {
    return device.front->GraphDestroy(graph);
  });
}

}  // extern "C"
}  // namespace firn::libcuda

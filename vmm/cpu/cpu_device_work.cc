// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstring>
#include <utility>

#include "firn/vmm/cpu/cpu_device.h"
#include "firn/vmm/cpu/stream_value.h"

namespace firn::cpu {
namespace {

void* ToPointer(DevicePtr address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

bool Overlap(DevicePtr a, DevicePtr b, uint64_t bytes) {
  return a < b ? b - a < bytes : a - b < bytes;
}

}  // namespace

template <typename Body>
Verdict CpuDevice::Transfer(StreamHandle stream, const char* name,
                            std::vector<AccessRange> ranges, Body body) {
  const Verdict known = streams().CheckStream(context_.id, stream);
  if (!known.ok()) return known;
  if (ranges.front().bytes == 0) return Allow();
  const Verdict permitted = memory().CheckAccess(
      ordinal_, ranges, memory().unmap_epoch(), /*physical=*/nullptr);
  if (!permitted.ok() || system().WorkTakesNoTime()) return permitted;
  return system().Enqueue(context_, stream, name, std::move(ranges),
                          std::move(body));
}

DriverResult CpuDevice::MemcpyDtoDAsync(DevicePtr dst, DevicePtr src,
                                        size_t bytes, StreamHandle stream) {
  return Make(
      DriverCall::kMemcpyDtoDAsync,
      [&] {
        // The order of the bytes is not fixed on a device.
        if (bytes != 0 && Overlap(dst, src, bytes)) {
          return RefuseValue("the two ranges must not overlap");
        }
        return Transfer(
            stream, "copy",
            {AccessRange{dst, bytes, /*writes=*/true},
             AccessRange{src, bytes, /*writes=*/false}},
            [=] { std::memcpy(ToPointer(dst), ToPointer(src), bytes); });
      },
      dst, src, bytes, stream);
}

DriverResult CpuDevice::MemcpyHtoDAsync(DevicePtr dst, const void* src,
                                        size_t bytes, StreamHandle stream) {
  return Make(
      DriverCall::kMemcpyHtoDAsync,
      [&] {
        if (bytes != 0 && src == nullptr) {
          return RefuseValue("the host memory must not be null");
        }
        return Transfer(stream, "copy from the host",
                        {AccessRange{dst, bytes, /*writes=*/true}},
                        [=] { std::memcpy(ToPointer(dst), src, bytes); });
      },
      dst, src, bytes, stream);
}

DriverResult CpuDevice::MemcpyDtoHAsync(void* dst, DevicePtr src, size_t bytes,
                                        StreamHandle stream) {
  return Make(
      DriverCall::kMemcpyDtoHAsync,
      [&] {
        if (bytes != 0 && dst == nullptr) {
          return RefuseValue("the host memory must not be null");
        }
        return Transfer(stream, "copy to the host",
                        {AccessRange{src, bytes, /*writes=*/false}},
                        [=] { std::memcpy(dst, ToPointer(src), bytes); });
      },
      dst, src, bytes, stream);
}

DriverResult CpuDevice::MemsetD8Async(DevicePtr dst, uint8_t value,
                                      size_t bytes, StreamHandle stream) {
  return Make(
      DriverCall::kMemsetD8Async,
      [&] {
        return Transfer(stream, "fill",
                        {AccessRange{dst, bytes, /*writes=*/true}},
                        [=] { std::memset(ToPointer(dst), value, bytes); });
      },
      dst, value, bytes, stream);
}

DriverResult CpuDevice::StreamCreate(StreamHandle* stream, uint32_t flags) {
  return Make(
      DriverCall::kStreamCreate,
      [&] { return streams().Create(context_.id, stream, flags); }, stream,
      flags);
}

DriverResult CpuDevice::StreamDestroy(StreamHandle stream) {
  return Make(
      DriverCall::kStreamDestroy, [&] { return streams().Destroy(stream); },
      stream);
}

DriverResult CpuDevice::StreamQuery(StreamHandle stream) {
  return MakeWait(
      DriverCall::kStreamQuery,
      [&] { return streams().Query(context_.id, stream); }, stream);
}

DriverResult CpuDevice::StreamSynchronize(StreamHandle stream) {
  return MakeWait(
      DriverCall::kStreamSynchronize,
      [&] { return streams().Synchronize(context_.id, stream); }, stream);
}

DriverResult CpuDevice::StreamGetId(StreamHandle stream, uint64_t* id) {
  return Make(
      DriverCall::kStreamGetId,
      [&] { return streams().GetId(context_.id, stream, id); }, stream, id);
}

DriverResult CpuDevice::StreamIsCapturing(StreamHandle stream,
                                          CaptureStatus* status) {
  return Make(
      DriverCall::kStreamIsCapturing,
      [&] { return streams().IsCapturing(context_.id, stream, status); },
      stream, status);
}

DriverResult CpuDevice::StreamWaitEvent(StreamHandle stream, EventHandle event,
                                        uint32_t flags) {
  return Make(
      DriverCall::kStreamWaitEvent,
      [&] { return streams().WaitEvent(context_.id, stream, event, flags); },
      stream, event, flags);
}

DriverResult CpuDevice::EventCreate(EventHandle* event, uint32_t flags) {
  return Make(
      DriverCall::kEventCreate,
      [&] { return streams().EventCreate(context_.id, event, flags); }, event,
      flags);
}

DriverResult CpuDevice::EventDestroy(EventHandle event) {
  return Make(
      DriverCall::kEventDestroy, [&] { return streams().EventDestroy(event); },
      event);
}

DriverResult CpuDevice::EventRecord(EventHandle event, StreamHandle stream) {
  return Make(
      DriverCall::kEventRecord,
      [&] { return streams().EventRecord(context_.id, event, stream); }, event,
      stream);
}

DriverResult CpuDevice::EventQuery(EventHandle event) {
  return MakeWait(
      DriverCall::kEventQuery, [&] { return streams().EventQuery(event); },
      event);
}

DriverResult CpuDevice::EventSynchronize(EventHandle event) {
  return MakeWait(
      DriverCall::kEventSynchronize,
      [&] { return streams().EventSynchronize(event); }, event);
}

DriverResult CpuDevice::CtxSynchronize() {
  return MakeWait(DriverCall::kCtxSynchronize,
                  [&] { return streams().SynchronizeContext(context_.id); });
}

DriverResult CpuDevice::StreamWaitValue32(StreamHandle stream,
                                          DevicePtr address, uint32_t value,
                                          uint32_t flags) {
  return Make(
      DriverCall::kStreamWaitValue32,
      [&] { return WaitValue<uint32_t>(stream, address, value, flags); },
      stream, address, value, flags);
}

DriverResult CpuDevice::StreamWaitValue64(StreamHandle stream,
                                          DevicePtr address, uint64_t value,
                                          uint32_t flags) {
  return Make(
      DriverCall::kStreamWaitValue64,
      [&] { return WaitValue<uint64_t>(stream, address, value, flags); },
      stream, address, value, flags);
}

DriverResult CpuDevice::StreamWriteValue32(StreamHandle stream,
                                           DevicePtr address, uint32_t value,
                                           uint32_t flags) {
  return Make(
      DriverCall::kStreamWriteValue32,
      [&] { return WriteValue<uint32_t>(stream, address, value, flags); },
      stream, address, value, flags);
}

DriverResult CpuDevice::StreamWriteValue64(StreamHandle stream,
                                           DevicePtr address, uint64_t value,
                                           uint32_t flags) {
  return Make(
      DriverCall::kStreamWriteValue64,
      [&] { return WriteValue<uint64_t>(stream, address, value, flags); },
      stream, address, value, flags);
}

DriverResult CpuDevice::LaunchHostFunc(StreamHandle stream,
                                       HostFunction function, void* user_data) {
  return Make(
      DriverCall::kLaunchHostFunc,
      [&] {
        if (function == nullptr) {
          return RefuseValue("the host function must not be null");
        }
        return streams().EnqueueHostFunction(context_.id, stream, function,
                                             user_data);
      },
      stream, function, user_data);
}

DriverResult CpuDevice::StreamBeginCapture(StreamHandle stream,
                                           CaptureMode mode) {
  return Make(
      DriverCall::kStreamBeginCapture,
      [&] { return streams().BeginCapture(context_.id, stream, mode); }, stream,
      mode);
}

DriverResult CpuDevice::StreamEndCapture(StreamHandle stream,
                                         GraphHandle* graph) {
  return Make(
      DriverCall::kStreamEndCapture,
      [&] { return streams().EndCapture(context_.id, stream, graph); }, stream,
      graph);
}

DriverResult CpuDevice::ThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  return Make(
      DriverCall::kThreadExchangeStreamCaptureMode,
      [&] { return StreamSet::ExchangeCaptureMode(mode); }, mode);
}

DriverResult CpuDevice::GraphInstantiate(GraphExecHandle* exec,
                                         GraphHandle graph, uint64_t flags) {
  return Make(
      DriverCall::kGraphInstantiate,
      [&] { return streams().GraphInstantiate(exec, graph, flags); }, exec,
      graph, flags);
}

DriverResult CpuDevice::GraphLaunch(GraphExecHandle exec, StreamHandle stream) {
  return Make(
      DriverCall::kGraphLaunch,
      [&] { return streams().GraphLaunch(context_.id, exec, stream); }, exec,
      stream);
}

DriverResult CpuDevice::GraphExecDestroy(GraphExecHandle exec) {
  return Make(
      DriverCall::kGraphExecDestroy,
      [&] { return streams().GraphExecDestroy(exec); }, exec);
}

DriverResult CpuDevice::GraphDestroy(GraphHandle graph) {
  return Make(
      DriverCall::kGraphDestroy, [&] { return streams().GraphDestroy(graph); },
      graph);
}

template <typename Body>
DriverResult CpuDevice::MakeOwn(absl::string_view call, const Body& body) {
  Verdict verdict = system().CheckCallable(ordinal_);
  if (verdict.ok()) verdict = body();
  if (verdict.is_misuse()) system().ReportMisuse(ordinal_, call, verdict);
  return verdict.result;
}

DriverResult CpuDevice::LaunchKernel(StreamHandle stream,
                                     std::vector<KernelRange> ranges,
                                     std::function<void()> body) {
  return MakeOwn("LaunchKernel", [&] {
    if (body == nullptr) return RefuseValue("a kernel must have a body");
    return system().Enqueue(context_, stream, "kernel", std::move(ranges),
                            std::move(body));
  });
}

DriverResult CpuDevice::StreamGetContext(StreamHandle stream, int* context) {
  return MakeOwn("StreamGetContext", [&] {
    return streams().GetContext(context_.id, stream, context);
  });
}

Verdict CpuDevice::CheckValue(StreamHandle stream, const AccessRange& range) {
  const Verdict known = streams().CheckStream(context_.id, stream);
  if (!known.ok()) return known;
  if (!system().real()) {
    return Refuse(DriverResult::kNotSupported,
                  "values in memory need a device with contents");
  }
  if (range.address % range.bytes != 0) {
    return RefuseValue("the address must be aligned to the value");
  }
  return memory().CheckAccess(ordinal_, {&range, 1}, memory().unmap_epoch(),
                              /*physical=*/nullptr);
}

template <typename Value>
Verdict CpuDevice::WaitValue(StreamHandle stream, DevicePtr address,
                             Value value, uint32_t flags) {
  if (flags > kWaitValueNor) {
    return RefuseValue("the flags must be one of GEQ, EQ, AND and NOR");
  }
  const AccessRange range{address, sizeof(Value), /*writes=*/false};
  const Verdict verdict = CheckValue(stream, range);
  if (!verdict.ok()) return verdict;
  return system().EnqueueWait(
      context_, stream, range,
      [=] {
        return IsSatisfied<Value>(LoadValue<Value>(address), value, flags);
      },
      DescribeWait(address, value, flags));
}

template <typename Value>
Verdict CpuDevice::WriteValue(StreamHandle stream, DevicePtr address,
                              Value value, uint32_t flags) {
  if (flags > kWriteValueNoMemoryBarrier) {
    return RefuseValue("the flags must be 0 or NO_MEMORY_BARRIER");
  }
  const AccessRange range{address, sizeof(Value), /*writes=*/true};
  const Verdict verdict = CheckValue(stream, range);
  if (!verdict.ok()) return verdict;
  return system().Enqueue(
      context_, stream, "value write", {range},
      [=] { StoreValue<Value>(address, value); },
      /*tells_host=*/true);
}

}  // namespace firn::cpu

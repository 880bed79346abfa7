// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/vmm/cuda/passed_calls.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace firn::testing {
namespace {

// Loses its value where anything passes 32 bits.
constexpr uint64_t kWideValue = uint64_t{1} << 32;

void HostFunctionOfNothing(void* /*user_data*/) {}

std::string Hex(const void* pointer) {
  return absl::StrCat("0x", absl::Hex(reinterpret_cast<uintptr_t>(pointer)));
}

}  // namespace

const AllocationProp& PinnedProp() {
  static const AllocationProp* const prop = [] {
    auto* pinned = new AllocationProp;
    pinned->type = AllocationType::kPinned;
    pinned->location = {LocationType::kDevice, 1};
    return pinned;
  }();
  return *prop;
}

std::vector<PassedCall> ContextFreeCalls() {
  static int32_t number;
  static CaptureMode mode;
  return {
      {[](Driver& d) { return d.DeviceGetCount(&number); },
       "cuDeviceGetCount()"},
      {[](Driver& d) {
         return d.DeviceGetAttribute(&number, DeviceAttribute::kHostNumaId);
       },
       "cuDeviceGetAttribute(134, 1)"},
      {[](Driver& d) {
         mode = CaptureMode::kRelaxed;
         return d.ThreadExchangeStreamCaptureMode(&mode);
       },
       "cuThreadExchangeStreamCaptureMode(2)"},
  };
}

namespace {

std::vector<PassedCall> MemoryCalls() {
  static int32_t number;
  static size_t bytes;
  static uint64_t value;
  static AllocationProp prop_of_handle;
  static AccessFlags access;
  static const MemLocation location = {LocationType::kDevice, 1};
  static const AccessDesc descs[2] = {};
  const AllocationProp* const prop = &PinnedProp();
  return {
      {[=](Driver& d) {
         return d.MemGetAllocationGranularity(&bytes, prop,
                                              GranularityKind::kRecommended);
       },
       "cuMemGetAllocationGranularity(1, 1, 1, 1)"},
      {[](Driver& d) {
         return d.MemAddressReserve(&value, kBytes, 512, kAddress, 7);
       },
       "cuMemAddressReserve(2048, 512, 4096, 7)"},
      {[](Driver& d) { return d.MemAddressFree(kAddress, kBytes); },
       "cuMemAddressFree(4096, 2048)"},
      {[=](Driver& d) { return d.MemCreate(&value, kBytes, prop, 7); },
       absl::StrCat("cuMemCreate(2048, ", Hex(prop), ", 7)")},
      {[](Driver& d) { return d.MemRelease(77); }, "cuMemRelease(77)"},
      {[](Driver& d) { return d.MemMap(kAddress, kBytes, 3, 77, 7); },
       "cuMemMap(4096, 2048, 3, 77, 7)"},
      {[](Driver& d) { return d.MemUnmap(kAddress, kBytes); },
       "cuMemUnmap(4096, 2048)"},
      {[](Driver& d) { return d.MemSetAccess(kAddress, kBytes, descs, 2); },
       absl::StrCat("cuMemSetAccess(4096, 2048, ", Hex(descs), ", 2)")},
      {[](Driver& d) { return d.MemGetAccess(&access, &location, kAddress); },
       absl::StrCat("cuMemGetAccess(", Hex(&location), ", 4096)")},
      {[](Driver& d) { return d.MemRetainAllocationHandle(&value, kAddress); },
       "cuMemRetainAllocationHandle(0x1000)"},
      {[](Driver& d) {
         return d.MemGetAllocationPropertiesFromHandle(&prop_of_handle, 77);
       },
       "cuMemGetAllocationPropertiesFromHandle(77)"},
      {[](Driver& d) {
         return d.MemExportToShareableHandle(
             &number, 77, ShareableHandleType::kPosixFileDescriptor, 7);
       },
       absl::StrCat("cuMemExportToShareableHandle(", Hex(&number),
                    ", 77, 1, 7)")},
      {[](Driver& d) {
         return d.MemImportFromShareableHandle(&value,
                                               reinterpret_cast<void*>(0xf),
                                               ShareableHandleType::kFabric);
       },
       "cuMemImportFromShareableHandle(0xf, 8)"},
  };
}

std::vector<PassedCall> StreamCalls() {
  static size_t bytes[2];
  static uint64_t id;
  static char host[1];
  static StreamHandle stream;
  static EventHandle event;
  static CaptureStatus status;
  static DevicePtr address;
  static bool mapped;
  static GraphHandle graph;
  static GraphExecHandle exec;
  return {
      {[](Driver& d) {
         return d.MemGetAddressRange(&address, &bytes[0], kAddress);
       },
       "cuMemGetAddressRange_v2(4096)"},
      {[](Driver& d) {
         return d.PointerGetAttribute(&mapped, PointerAttribute::kMapped,
                                      kAddress);
       },
       absl::StrCat("cuPointerGetAttribute(", Hex(&mapped), ", 13, 4096)")},
      {[](Driver& d) { return d.MemGetInfo(&bytes[0], &bytes[1]); },
       "cuMemGetInfo_v2()"},
      {[](Driver& d) { return d.MemAlloc(&address, kBytes); },
       "cuMemAlloc_v2(2048)"},
      {[](Driver& d) { return d.MemFree(kAddress); }, "cuMemFree_v2(4096)"},
      {[](Driver& d) { return d.MemcpyDtoDAsync(1, 2, kBytes, FakeStream()); },
       "cuMemcpyDtoDAsync_v2(1, 2, 2048, 0x50)"},
      {[](Driver& d) {
         return d.MemcpyHtoDAsync(1, host, kBytes, FakeStream());
       },
       absl::StrCat("cuMemcpyHtoDAsync_v2(1, ", Hex(host), ", 2048, 0x50)")},
      {[](Driver& d) {
         return d.MemcpyDtoHAsync(host, 2, kBytes, FakeStream());
       },
       absl::StrCat("cuMemcpyDtoHAsync_v2(", Hex(host), ", 2, 2048, 0x50)")},
      {[](Driver& d) {
         return d.MemsetD8Async(kAddress, 0xdb, kBytes, FakeStream());
       },
       "cuMemsetD8Async(4096, 219, 2048, 0x50)"},
      {[](Driver& d) { return d.StreamCreate(&stream, kStreamNonBlocking); },
       "cuStreamCreate(1)"},
      {[](Driver& d) { return d.StreamDestroy(FakeStream()); },
       "cuStreamDestroy_v2(0x50)"},
      {[](Driver& d) { return d.StreamQuery(nullptr); }, "cuStreamQuery(0x0)"},
      {[](Driver& d) { return d.StreamSynchronize(FakeStream()); },
       "cuStreamSynchronize(0x50)"},
      {[](Driver& d) { return d.StreamGetId(FakeStream(), &id); },
       "cuStreamGetId(0x50)"},
      {[](Driver& d) { return d.StreamIsCapturing(FakeStream(), &status); },
       "cuStreamIsCapturing(0x50)"},
      {[](Driver& d) {
         return d.StreamWaitEvent(FakeStream(), FakeEvent(), 7);
       },
       "cuStreamWaitEvent(0x50, 0xe0, 7)"},
      {[](Driver& d) { return d.EventCreate(&event, kEventDisableTiming); },
       "cuEventCreate(2)"},
      {[](Driver& d) { return d.EventDestroy(FakeEvent()); },
       "cuEventDestroy_v2(0xe0)"},
      {[](Driver& d) { return d.EventRecord(FakeEvent(), FakeStream()); },
       "cuEventRecord(0xe0, 0x50)"},
      {[](Driver& d) { return d.EventQuery(FakeEvent()); },
       "cuEventQuery(0xe0)"},
      {[](Driver& d) { return d.EventSynchronize(FakeEvent()); },
       "cuEventSynchronize(0xe0)"},
      {[](Driver& d) { return d.CtxSynchronize(); }, "cuCtxSynchronize()"},
      {[](Driver& d) {
         return d.StreamWaitValue32(FakeStream(), kAddress, 0xffffffffu,
                                    kWaitValueNor);
       },
       "cuStreamWaitValue32_v2(0x50, 4096, 4294967295, 3)"},
      {[](Driver& d) {
         return d.StreamWaitValue64(FakeStream(), kAddress, kWideValue,
                                    kWaitValueAnd);
       },
       "cuStreamWaitValue64_v2(0x50, 4096, 4294967296, 2)"},
      {[](Driver& d) {
         return d.StreamWriteValue32(FakeStream(), kAddress, 0xffffffffu,
                                     kWriteValueNoMemoryBarrier);
       },
       "cuStreamWriteValue32_v2(0x50, 4096, 4294967295, 1)"},
      {[](Driver& d) {
         return d.StreamWriteValue64(FakeStream(), kAddress, kWideValue,
                                     kWriteValueDefault);
       },
       "cuStreamWriteValue64_v2(0x50, 4096, 4294967296, 0)"},
      {[](Driver& d) {
         return d.LaunchHostFunc(FakeStream(), &HostFunctionOfNothing, host);
       },
       absl::StrCat("cuLaunchHostFunc(0x50, ",
                    Hex(reinterpret_cast<void*>(&HostFunctionOfNothing)), ", ",
                    Hex(host), ")")},
      {[](Driver& d) {
         return d.StreamBeginCapture(FakeStream(), CaptureMode::kThreadLocal);
       },
       "cuStreamBeginCapture_v2(0x50, 1)"},
      {[](Driver& d) { return d.StreamEndCapture(FakeStream(), &graph); },
       "cuStreamEndCapture(0x50)"},
      {[](Driver& d) { return d.GraphInstantiate(&exec, FakeGraph(), 7); },
       "cuGraphInstantiateWithFlags(0x60, 7)"},
      {[](Driver& d) { return d.GraphLaunch(FakeGraphExec(), FakeStream()); },
       "cuGraphLaunch(0x6e, 0x50)"},
      {[](Driver& d) { return d.GraphExecDestroy(FakeGraphExec()); },
       "cuGraphExecDestroy(0x6e)"},
      {[](Driver& d) { return d.GraphDestroy(FakeGraph()); },
       "cuGraphDestroy(0x60)"},
  };
}

}  // namespace

std::vector<PassedCall> ContextCalls() {
  std::vector<PassedCall> calls = MemoryCalls();
  for (PassedCall& call : StreamCalls()) calls.push_back(std::move(call));
  return calls;
}

std::vector<PassedCall> AllPassedCalls() {
  std::vector<PassedCall> calls = ContextFreeCalls();
  for (PassedCall& call : ContextCalls()) calls.push_back(std::move(call));
  return calls;
}

std::string NameOf(const PassedCall& call) {
  return call.recorded.substr(0, call.recorded.find('('));
}

}  // namespace firn::testing

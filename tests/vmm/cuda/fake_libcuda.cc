// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A library shaped like libcuda.so.1 that records what is asked of it and does
// nothing else. Built three times: FIRN_FAKE_PROC_ADDRESS is 2 (it exports
// cuGetProcAddress_v2 as well as cuGetProcAddress), 1 (the latter only), or 0
// (neither, as before CUDA 11.3).

#include "tests/vmm/cuda/fake_libcuda.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/driver_types.h"

struct CUctx_st;

namespace {

using firn::AccessDesc;
using firn::AllocationProp;
using firn::CaptureStatus;
using firn::DevicePtr;
using firn::DriverResult;
using firn::EventHandle;
using firn::GranularityKind;
using firn::MemLocation;
using firn::PhysicalHandle;
using firn::StreamHandle;
using firn::testing::FakeCudaState;
using firn::testing::kFakePrimaryContext;

FakeCudaState& State() {
  static FakeCudaState* const state = new FakeCudaState;
  return *state;
}

template <typename T>
std::string ArgumentString(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return absl::StrCat("0x", absl::Hex(reinterpret_cast<uintptr_t>(value)));
  } else if constexpr (std::is_enum_v<T> || sizeof(T) == 1) {
    return absl::StrCat(static_cast<int32_t>(value));
  } else {
    return absl::StrCat(value);
  }
}

// Notes a call by its exported name and its inputs; returns the result that
// the test has ordered.
template <typename... Args>
DriverResult Record(const char* name, Args... args) {
  FakeCudaState& state = State();
  if (state.is_stub) return DriverResult::kStubLibrary;
  std::string call = absl::StrCat(name, "(");
  [[maybe_unused]] const char* separator = "";
  ((absl::StrAppend(&call, separator, ArgumentString(args)), separator = ", "),
   ...);
  absl::StrAppend(&call, ")");
  if (!state.context_stack.empty()) {
    absl::StrAppend(&call, " @0x", absl::Hex(state.context_stack.back()));
  }
  state.calls.push_back(call);
  const auto it = state.results.find(name);
  return it == state.results.end() ? DriverResult::kSuccess
                                   : static_cast<DriverResult>(it->second);
}

// Writes `value` where the call succeeded.
template <typename T>
DriverResult Give(DriverResult result, T* out, T value) {
  if (result == DriverResult::kSuccess) *out = value;
  return result;
}

template <typename Handle>
Handle FakeHandle(uintptr_t value) {
  return reinterpret_cast<Handle>(value);
}

}  // namespace

extern "C" {

FakeCudaState* FirnFakeCudaState() { return &State(); }

DriverResult cuInit(uint32_t flags) { return Record("cuInit", flags); }
DriverResult cuDriverGetVersion(int32_t* version) {
  return Give(Record("cuDriverGetVersion"), version, State().driver_version);
}
DriverResult cuGetErrorString(DriverResult error, const char** text) {
  return Give(Record("cuGetErrorString", error), text,
              static_cast<const char*>("the fake's error text"));
}
DriverResult cuDeviceGet(int32_t* device, int32_t ordinal) {
  return Give(Record("cuDeviceGet", ordinal), device, ordinal);
}
DriverResult cuDeviceGetCount(int32_t* count) {
  return Give(Record("cuDeviceGetCount"), count, State().device_count);
}
DriverResult cuDeviceGetName(char* name, int32_t bytes, int32_t device) {
  const DriverResult result = Record("cuDeviceGetName", bytes, device);
  if (result == DriverResult::kSuccess) {
    std::snprintf(name, static_cast<size_t>(bytes), "Fake GPU %d", device);
  }
  return result;
}
DriverResult cuDeviceGetAttribute(int32_t* value, int32_t attribute,
                                  int32_t device) {
  return Give(Record("cuDeviceGetAttribute", attribute, device), value,
              State().supports_vmm ? 1 : 0);
}
DriverResult cuDevicePrimaryCtxRetain(CUctx_st** context, int32_t device) {
  const DriverResult result = Record("cuDevicePrimaryCtxRetain", device);
  if (result == DriverResult::kSuccess) {
    ++State().primary_context_references;
    *context = FakeHandle<CUctx_st*>(kFakePrimaryContext +
                                     static_cast<uintptr_t>(device));
  }
  return result;
}
DriverResult cuDevicePrimaryCtxRelease_v2(int32_t device) {
  const DriverResult result = Record("cuDevicePrimaryCtxRelease_v2", device);
  if (result == DriverResult::kSuccess) --State().primary_context_references;
  return result;
}

// Recorded only where they fail; else the calls in between tell.
DriverResult cuCtxPushCurrent_v2(CUctx_st* context) {
  if (State().results.count("cuCtxPushCurrent_v2") > 0) {
    return Record("cuCtxPushCurrent_v2", context);
  }
  State().context_stack.push_back(reinterpret_cast<uintptr_t>(context));
  return DriverResult::kSuccess;
}
DriverResult cuCtxPopCurrent_v2(CUctx_st** context) {
  if (State().context_stack.empty()) return DriverResult::kInvalidContext;
  *context = FakeHandle<CUctx_st*>(State().context_stack.back());
  State().context_stack.pop_back();
  if (State().results.count("cuCtxPopCurrent_v2") > 0) {
    return Record("cuCtxPopCurrent_v2");
  }
  return DriverResult::kSuccess;
}
DriverResult cuCtxSynchronize() { return Record("cuCtxSynchronize"); }

DriverResult cuMemGetAllocationGranularity(size_t* granularity_bytes,
                                           const AllocationProp* prop,
                                           GranularityKind kind) {
  return Give(Record("cuMemGetAllocationGranularity", prop->type,
                     prop->location.type, prop->location.id, kind),
              granularity_bytes, size_t{2} << 20);
}
DriverResult cuMemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) {
  return Give(
      Record("cuMemAddressReserve", bytes, alignment_bytes, hint, flags),
      address, DevicePtr{0x7000000000});
}
DriverResult cuMemAddressFree(DevicePtr address, size_t bytes) {
  return Record("cuMemAddressFree", address, bytes);
}
DriverResult cuMemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) {
  return Give(Record("cuMemCreate", bytes, prop, flags), handle,
              PhysicalHandle{77});
}
DriverResult cuMemRelease(PhysicalHandle handle) {
  return Record("cuMemRelease", handle);
}
DriverResult cuMemMap(DevicePtr address, size_t bytes, size_t offset_bytes,
                      PhysicalHandle handle, uint64_t flags) {
  return Record("cuMemMap", address, bytes, offset_bytes, handle, flags);
}
DriverResult cuMemUnmap(DevicePtr address, size_t bytes) {
  return Record("cuMemUnmap", address, bytes);
}
DriverResult cuMemSetAccess(DevicePtr address, size_t bytes,
                            const AccessDesc* descs, size_t count) {
  return Record("cuMemSetAccess", address, bytes, descs, count);
}
DriverResult cuMemGetAccess(uint64_t* flags, const MemLocation* location,
                            DevicePtr address) {
  return Give(Record("cuMemGetAccess", location, address), flags, uint64_t{3});
}
DriverResult cuMemRetainAllocationHandle(PhysicalHandle* handle,
                                         void* address) {
  return Give(Record("cuMemRetainAllocationHandle", address), handle,
              PhysicalHandle{78});
}
DriverResult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  const DriverResult result = Record("cuMemGetInfo_v2");
  Give(result, free_bytes, size_t{5} << 30);
  return Give(result, total_bytes, size_t{6} << 30);
}

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
// Older drivers do not export it.
#if FIRN_FAKE_PROC_ADDRESS == 2
DriverResult cuStreamGetId(StreamHandle stream, uint64_t* id) {
  return Give(Record("cuStreamGetId", stream), id, uint64_t{4711});
}
#endif
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

// Functions of the same base names and other signatures, older and newer: a
// caller that binds one of them shows in the record.
#define FIRN_FAKE_TRAP(name) \
  DriverResult name() { return Record(#name); }
FIRN_FAKE_TRAP(cuDevicePrimaryCtxRelease)
FIRN_FAKE_TRAP(cuCtxPushCurrent)
FIRN_FAKE_TRAP(cuCtxPopCurrent)
FIRN_FAKE_TRAP(cuCtxSynchronize_v2)
FIRN_FAKE_TRAP(cuMemGetInfo)
FIRN_FAKE_TRAP(cuMemcpyDtoDAsync)
FIRN_FAKE_TRAP(cuMemcpyHtoDAsync)
FIRN_FAKE_TRAP(cuMemcpyDtoHAsync)
FIRN_FAKE_TRAP(cuStreamDestroy)
FIRN_FAKE_TRAP(cuEventDestroy)
#undef FIRN_FAKE_TRAP

}  // extern "C"

#if FIRN_FAKE_PROC_ADDRESS > 0

namespace {

// One signature of one base name, and the version that introduced it.
struct Export {
  const char* symbol;
  int32_t version;
  void* function;
};

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Several lines of one symbol are in ascending order of versions.
const Export kExports[] = {
    {"cuInit", 2000, Address(cuInit)},
    {"cuDriverGetVersion", 2020, Address(cuDriverGetVersion)},
    {"cuGetErrorString", 6000, Address(cuGetErrorString)},
    {"cuDeviceGet", 2000, Address(cuDeviceGet)},
    {"cuDeviceGetCount", 2000, Address(cuDeviceGetCount)},
    {"cuDeviceGetName", 2000, Address(cuDeviceGetName)},
    {"cuDeviceGetAttribute", 2000, Address(cuDeviceGetAttribute)},
    {"cuDevicePrimaryCtxRetain", 7000, Address(cuDevicePrimaryCtxRetain)},
    {"cuDevicePrimaryCtxRelease", 7000, Address(cuDevicePrimaryCtxRelease)},
    {"cuDevicePrimaryCtxRelease", 11000, Address(cuDevicePrimaryCtxRelease_v2)},
    {"cuCtxPushCurrent", 2000, Address(cuCtxPushCurrent)},
    {"cuCtxPushCurrent", 4000, Address(cuCtxPushCurrent_v2)},
    {"cuCtxPopCurrent", 2000, Address(cuCtxPopCurrent)},
    {"cuCtxPopCurrent", 4000, Address(cuCtxPopCurrent_v2)},
    {"cuCtxSynchronize", 2000, Address(cuCtxSynchronize)},
    {"cuCtxSynchronize", 13000, Address(cuCtxSynchronize_v2)},
    {"cuMemGetAllocationGranularity", 10020,
     Address(cuMemGetAllocationGranularity)},
    {"cuMemAddressReserve", 10020, Address(cuMemAddressReserve)},
    {"cuMemAddressFree", 10020, Address(cuMemAddressFree)},
    {"cuMemCreate", 10020, Address(cuMemCreate)},
    {"cuMemRelease", 10020, Address(cuMemRelease)},
    {"cuMemMap", 10020, Address(cuMemMap)},
    {"cuMemUnmap", 10020, Address(cuMemUnmap)},
    {"cuMemSetAccess", 10020, Address(cuMemSetAccess)},
    {"cuMemGetAccess", 10020, Address(cuMemGetAccess)},
    {"cuMemRetainAllocationHandle", 11000,
     Address(cuMemRetainAllocationHandle)},
    {"cuMemGetInfo", 2000, Address(cuMemGetInfo)},
    {"cuMemGetInfo", 3020, Address(cuMemGetInfo_v2)},
    {"cuMemcpyDtoDAsync", 3000, Address(cuMemcpyDtoDAsync)},
    {"cuMemcpyDtoDAsync", 3020, Address(cuMemcpyDtoDAsync_v2)},
    {"cuMemcpyHtoDAsync", 2000, Address(cuMemcpyHtoDAsync)},
    {"cuMemcpyHtoDAsync", 3020, Address(cuMemcpyHtoDAsync_v2)},
    {"cuMemcpyDtoHAsync", 2000, Address(cuMemcpyDtoHAsync)},
    {"cuMemcpyDtoHAsync", 3020, Address(cuMemcpyDtoHAsync_v2)},
    {"cuMemsetD8Async", 3020, Address(cuMemsetD8Async)},
    {"cuStreamCreate", 2000, Address(cuStreamCreate)},
    {"cuStreamDestroy", 2000, Address(cuStreamDestroy)},
    {"cuStreamDestroy", 4000, Address(cuStreamDestroy_v2)},
    {"cuStreamQuery", 2000, Address(cuStreamQuery)},
    {"cuStreamSynchronize", 2000, Address(cuStreamSynchronize)},
#if FIRN_FAKE_PROC_ADDRESS == 2
    {"cuStreamGetId", 12000, Address(cuStreamGetId)},
#endif
    {"cuStreamIsCapturing", 10000, Address(cuStreamIsCapturing)},
    {"cuStreamWaitEvent", 3020, Address(cuStreamWaitEvent)},
    {"cuEventCreate", 2000, Address(cuEventCreate)},
    {"cuEventDestroy", 2000, Address(cuEventDestroy)},
    {"cuEventDestroy", 4000, Address(cuEventDestroy_v2)},
    {"cuEventRecord", 2000, Address(cuEventRecord)},
    {"cuEventQuery", 2000, Address(cuEventQuery)},
    {"cuEventSynchronize", 2000, Address(cuEventSynchronize)},
};

// The newest function of that name which is no newer than `version`, as the
// driver chooses.
void* Lookup(absl::string_view symbol, int32_t version) {
  void* found = nullptr;
  for (const Export& entry : kExports) {
    if (symbol == entry.symbol && entry.version <= version) {
      found = entry.function;
    }
  }
  return symbol == State().missing_symbol ? nullptr : found;
}

DriverResult GetProcAddress(const char* symbol, void** function,
                            int32_t version, uint64_t flags) {
  FakeCudaState& state = State();
  state.requests.push_back({symbol, version, flags});
  if (state.is_stub) return DriverResult::kStubLibrary;
  if (version > state.driver_version) return DriverResult::kInvalidValue;
  *function = Lookup(symbol, version);
  return DriverResult::kSuccess;
}

}  // namespace

extern "C" {

// Told nothing else, a caller that looks at the result alone takes a symbol
// for found.
DriverResult cuGetProcAddress(const char* symbol, void** function,
                              int32_t version, uint64_t flags) {
  return GetProcAddress(symbol, function, version, flags);
}

#if FIRN_FAKE_PROC_ADDRESS == 2
DriverResult cuGetProcAddress_v2(const char* symbol, void** function,
                                 int32_t version, uint64_t flags,
                                 int32_t* status) {
  constexpr int32_t kSymbolNotFound = 1;
  const DriverResult result = GetProcAddress(symbol, function, version, flags);
  *status = *function == nullptr && State().missing_symbol_status
                ? kSymbolNotFound
                : 0;
  return result;
}
#endif

}  // extern "C"

#endif  // FIRN_FAKE_PROC_ADDRESS > 0

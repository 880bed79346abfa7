// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A library shaped like libcuda.so.1 that records what is asked of it and does
// nothing else: here the device, its context and its memory. Built three times:
// FIRN_FAKE_PROC_ADDRESS is 2 (it exports cuGetProcAddress_v2 as well as
// cuGetProcAddress), 1 (the latter only), or 0 (neither, as before CUDA 11.3).

#include "tests/vmm/cuda/fake_libcuda.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "firn/vmm/driver_types.h"
#include "tests/vmm/cuda/fake_recorder.h"

struct CUctx_st;

namespace {

using firn::AccessDesc;
using firn::AllocationProp;
using firn::AllocationType;
using firn::DeviceAttribute;
using firn::DevicePtr;
using firn::DriverResult;
using firn::GranularityKind;
using firn::MemLocation;
using firn::PhysicalHandle;
using firn::PointerAttribute;
using firn::ShareableHandleType;
using firn::testing::FakeCudaState;
using firn::testing::FakeHandle;
using firn::testing::FakeState;
using firn::testing::Give;
using firn::testing::kFakePrimaryContext;
using firn::testing::Record;

}  // namespace

FakeCudaState& firn::testing::FakeState() {
  static FakeCudaState* const state = new FakeCudaState;
  return *state;
}

extern "C" {

FakeCudaState* FirnFakeCudaState() { return &FakeState(); }

DriverResult cuInit(uint32_t flags) { return Record("cuInit", flags); }
DriverResult cuDriverGetVersion(int32_t* version) {
  return Give(Record("cuDriverGetVersion"), version,
              FakeState().driver_version);
}
DriverResult cuGetErrorString(DriverResult error, const char** text) {
  return Give(Record("cuGetErrorString", error), text,
              static_cast<const char*>("the fake's error text"));
}
DriverResult cuDeviceGet(int32_t* device, int32_t ordinal) {
  return Give(Record("cuDeviceGet", ordinal), device, ordinal);
}
DriverResult cuDeviceGetCount(int32_t* count) {
  return Give(Record("cuDeviceGetCount"), count, FakeState().device_count);
}
DriverResult cuDeviceGetName(char* name, int32_t bytes, int32_t device) {
  const DriverResult result = Record("cuDeviceGetName", bytes, device);
  if (result == DriverResult::kSuccess) {
    std::snprintf(name, static_cast<size_t>(bytes), "Fake GPU %d", device);
  }
  return result;
}
DriverResult cuDeviceGetAttribute(int32_t* value, DeviceAttribute attribute,
                                  int32_t device) {
  return Give(Record("cuDeviceGetAttribute", attribute, device), value,
              FakeState().attributes);
}
DriverResult cuDeviceCanAccessPeer(int32_t* can_access, int32_t device,
                                   int32_t peer) {
  return Give(Record("cuDeviceCanAccessPeer", device, peer), can_access, 1);
}
DriverResult cuDevicePrimaryCtxRetain(CUctx_st** context, int32_t device) {
  const DriverResult result = Record("cuDevicePrimaryCtxRetain", device);
  if (result == DriverResult::kSuccess) {
    ++FakeState().primary_context_references;
    *context = FakeHandle<CUctx_st*>(kFakePrimaryContext +
                                     static_cast<uintptr_t>(device));
  }
  return result;
}
DriverResult cuDevicePrimaryCtxRelease_v2(int32_t device) {
  const DriverResult result = Record("cuDevicePrimaryCtxRelease_v2", device);
  if (result == DriverResult::kSuccess)
    --FakeState().primary_context_references;
  return result;
}

// Recorded only where they fail; else the calls in between tell.
DriverResult cuCtxPushCurrent_v2(CUctx_st* context) {
  if (FakeState().results.count("cuCtxPushCurrent_v2") > 0) {
    return Record("cuCtxPushCurrent_v2", context);
  }
  FakeState().context_stack.push_back(reinterpret_cast<uintptr_t>(context));
  return DriverResult::kSuccess;
}
DriverResult cuCtxPopCurrent_v2(CUctx_st** context) {
  if (FakeState().context_stack.empty()) return DriverResult::kInvalidContext;
  *context = FakeHandle<CUctx_st*>(FakeState().context_stack.back());
  FakeState().context_stack.pop_back();
  if (FakeState().results.count("cuCtxPopCurrent_v2") > 0) {
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
DriverResult cuMemGetAllocationPropertiesFromHandle(AllocationProp* prop,
                                                    PhysicalHandle handle) {
  AllocationProp pinned;
  pinned.type = AllocationType::kPinned;
  return Give(Record("cuMemGetAllocationPropertiesFromHandle", handle), prop,
              pinned);
}
DriverResult cuMemExportToShareableHandle(void* shareable,
                                          PhysicalHandle handle,
                                          ShareableHandleType type,
                                          uint64_t flags) {
  return Record("cuMemExportToShareableHandle", shareable, handle, type, flags);
}
DriverResult cuMemImportFromShareableHandle(PhysicalHandle* handle,
                                            void* shareable,
                                            ShareableHandleType type) {
  return Give(Record("cuMemImportFromShareableHandle", shareable, type), handle,
              PhysicalHandle{79});
}
DriverResult cuMemGetAddressRange_v2(DevicePtr* base, size_t* bytes,
                                     DevicePtr address) {
  const DriverResult result = Record("cuMemGetAddressRange_v2", address);
  Give(result, base, DevicePtr{0x7000000000});
  return Give(result, bytes, size_t{4} << 20);
}
DriverResult cuPointerGetAttribute(void* data, PointerAttribute attribute,
                                   DevicePtr address) {
  return Record("cuPointerGetAttribute", data, attribute, address);
}
DriverResult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  const DriverResult result = Record("cuMemGetInfo_v2");
  Give(result, free_bytes, size_t{5} << 30);
  return Give(result, total_bytes, size_t{6} << 30);
}

DriverResult cuMemAlloc_v2(DevicePtr* address, size_t bytes) {
  return Give(Record("cuMemAlloc_v2", bytes), address, DevicePtr{1} << 47);
}
DriverResult cuMemFree_v2(DevicePtr address) {
  return Record("cuMemFree_v2", address);
}

}  // extern "C"

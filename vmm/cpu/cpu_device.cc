// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/cpu_device.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace firn::cpu {
namespace {

// The driver API whose rules are kept: CUDA 13.0.
constexpr int kDriverVersion = 13000;

}  // namespace

CpuDevice::~CpuDevice() {
  // In a forked child there are no workers to wait for, and locks may be held
  // by threads that do not exist: what the parent made stays as it is.
  if (system_->in_forked_child()) {
    new std::shared_ptr<CpuSystem>(std::move(system_));
    return;
  }
  // The last one leaves its work to the end of the system, which gives up what
  // would wait for ever.
  const bool first_context = context_.id == ordinal_;
  if (!first_context && system_.use_count() > 1) {
    streams().DestroyContext(context_.id);
  }
}

absl::StatusOr<std::unique_ptr<CpuDriver>> CpuDevice::CreateContext() {
  const Verdict callable = system().CheckCallable(ordinal_);
  if (!callable.ok()) {
    return absl::FailedPreconditionError(
        callable.is_misuse() ? callable.rule
                             : absl::StrCat("the device is lost: ", loss()));
  }
  const absl::optional<int> id = streams().CreateContext(ordinal_);
  if (!id.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a CPU driver has at most ", kMaxCpuContexts, " contexts at a time"));
  }
  StreamContext context;
  context.id = *id;
  context.device = ordinal_;
  return std::make_unique<CpuDevice>(system_, context);
}

DriverIdentity CpuDevice::identity() const {
  DriverIdentity identity;
  identity.backend = "cpu";
  identity.device_name = system().options().device_name;
  identity.device_ordinal = ordinal_;
  identity.driver_version = kDriverVersion;
  return identity;
}

DriverResult CpuDevice::DeviceGetCount(int32_t* count) {
  return Make(
      DriverCall::kDeviceGetCount,
      [&] {
        if (count == nullptr) return RefuseValue("the count must have a place");
        *count = system().options().device_count;
        return Allow();
      },
      count);
}

DriverResult CpuDevice::DeviceGetAttribute(int32_t* value,
                                           DeviceAttribute attribute) {
  return Make(
      DriverCall::kDeviceGetAttribute,
      [&] { return GetAttribute(value, attribute); }, value, attribute);
}

DriverResult CpuDevice::DeviceCanAccessPeer(int32_t* can_access, int32_t peer) {
  return Make(
      DriverCall::kDeviceCanAccessPeer,
      [&] {
        const CpuDriverOptions& options = system().options();
        if (can_access == nullptr) {
          return RefuseValue("the answer must have a place");
        }
        if (peer < 0 || peer >= options.device_count) {
          return Refuse(DriverResult::kInvalidDevice,
                        "the peer must be the ordinal of a device");
        }
        // A device is no peer of itself.
        *can_access = options.peer_access && peer != ordinal_ ? 1 : 0;
        return Allow();
      },
      can_access, peer);
}

DriverResult CpuDevice::MemGetAllocationGranularity(size_t* granularity_bytes,
                                                    const AllocationProp* prop,
                                                    GranularityKind kind) {
  return Make(
      DriverCall::kMemGetAllocationGranularity,
      [&] {
        const Verdict supported = system().AdmitVirtualMemory();
        return supported.ok()
                   ? memory().GetGranularity(granularity_bytes, prop, kind)
                   : supported;
      },
      granularity_bytes, prop, kind);
}

DriverResult CpuDevice::MemAddressReserve(DevicePtr* address, size_t bytes,
                                          size_t alignment_bytes,
                                          DevicePtr hint, uint64_t flags) {
  return MakeMemoryCall(
      DriverCall::kMemAddressReserve,
      [&] {
        return memory().Reserve(address, bytes, alignment_bytes, hint, flags);
      },
      address, bytes, alignment_bytes, hint, flags);
}

DriverResult CpuDevice::MemAddressFree(DevicePtr address, size_t bytes) {
  return MakeMemoryCall(
      DriverCall::kMemAddressFree,
      [&] {
        const Verdict own = system().allocations().RefuseAllocated(address);
        return own.ok() ? memory().Unreserve(address, bytes) : own;
      },
      address, bytes);
}

DriverResult CpuDevice::MemCreate(PhysicalHandle* handle, size_t bytes,
                                  const AllocationProp* prop, uint64_t flags) {
  return MakeMemoryCall(
      DriverCall::kMemCreate,
      [&] { return memory().Create(handle, bytes, prop, flags); }, handle,
      bytes, prop, flags);
}

DriverResult CpuDevice::MemRelease(PhysicalHandle handle) {
  return MakeMemoryCall(
      DriverCall::kMemRelease,
      [&] {
        const Verdict verdict = memory().Release(handle);
        system().ForgetFreedMemory();
        return verdict;
      },
      handle);
}

DriverResult CpuDevice::MemMap(DevicePtr address, size_t bytes,
                               size_t offset_bytes, PhysicalHandle handle,
                               uint64_t flags) {
  return MakeMemoryCall(
      DriverCall::kMemMap,
      [&] { return memory().Map(address, bytes, offset_bytes, handle, flags); },
      address, bytes, offset_bytes, handle, flags);
}

DriverResult CpuDevice::MemUnmap(DevicePtr address, size_t bytes) {
  return MakeMemoryCall(
      DriverCall::kMemUnmap,
      [&] {
        const Verdict own = system().allocations().RefuseAllocated(address);
        if (!own.ok()) return own;
        const Verdict drained =
            system().DrainFor(ordinal_, DriverCall::kMemUnmap);
        if (!drained.ok()) return drained;
        const Verdict verdict = memory().Unmap(address, bytes);
        system().ForgetFreedMemory();
        return verdict;
      },
      address, bytes);
}

DriverResult CpuDevice::MemSetAccess(DevicePtr address, size_t bytes,
                                     const AccessDesc* descs, size_t count) {
  return MakeMemoryCall(
      DriverCall::kMemSetAccess,
      [&] {
        const Verdict own = system().allocations().RefuseAllocated(address);
        if (!own.ok()) return own;
        const Verdict drained =
            system().DrainFor(ordinal_, DriverCall::kMemSetAccess);
        return drained.ok() ? memory().SetAccess(address, bytes, descs, count)
                            : drained;
      },
      address, bytes, descs, count);
}

DriverResult CpuDevice::MemGetAccess(AccessFlags* flags,
                                     const MemLocation* location,
                                     DevicePtr address) {
  return Make(
      DriverCall::kMemGetAccess,
      [&] {
        const Verdict supported = system().AdmitVirtualMemory();
        return supported.ok() ? memory().GetAccess(flags, location, address)
                              : supported;
      },
      flags, location, address);
}

DriverResult CpuDevice::MemRetainAllocationHandle(PhysicalHandle* handle,
                                                  DevicePtr address) {
  return MakeMemoryCall(
      DriverCall::kMemRetainAllocationHandle,
      [&] {
        const Verdict own = system().allocations().RefuseAllocated(address);
        return own.ok() ? memory().Retain(handle, address) : own;
      },
      handle, address);
}

DriverResult CpuDevice::MemGetAllocationPropertiesFromHandle(
    AllocationProp* prop, PhysicalHandle handle) {
  return Make(
      DriverCall::kMemGetAllocationPropertiesFromHandle,
      [&] {
        const Verdict supported = system().AdmitVirtualMemory();
        return supported.ok() ? memory().GetProperties(prop, handle)
                              : supported;
      },
      prop, handle);
}

DriverResult CpuDevice::MemExportToShareableHandle(void* shareable,
                                                   PhysicalHandle handle,
                                                   ShareableHandleType type,
                                                   uint64_t flags) {
  return MakeMemoryCall(
      DriverCall::kMemExportToShareableHandle,
      [&] { return memory().Export(shareable, handle, type, flags); },
      shareable, handle, type, flags);
}

DriverResult CpuDevice::MemImportFromShareableHandle(PhysicalHandle* handle,
                                                     void* shareable,
                                                     ShareableHandleType type) {
  return MakeMemoryCall(
      DriverCall::kMemImportFromShareableHandle,
      [&] { return memory().Import(handle, shareable, type); }, handle,
      shareable, type);
}

DriverResult CpuDevice::MemGetAddressRange(DevicePtr* base, size_t* bytes,
                                           DevicePtr address) {
  return Make(
      DriverCall::kMemGetAddressRange,
      [&] { return memory().GetAddressRange(base, bytes, address); }, base,
      bytes, address);
}

DriverResult CpuDevice::PointerGetAttribute(void* data,
                                            PointerAttribute attribute,
                                            DevicePtr address) {
  return Make(
      DriverCall::kPointerGetAttribute,
      [&] {
        return memory().GetPointerAttribute(ordinal_, data, attribute, address);
      },
      data, attribute, address);
}

DriverResult CpuDevice::MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return Make(
      DriverCall::kMemGetInfo,
      [&] { return memory().GetInfo(ordinal_, free_bytes, total_bytes); },
      free_bytes, total_bytes);
}

DriverResult CpuDevice::MemAlloc(DevicePtr* address, size_t bytes) {
  return Make(
      DriverCall::kMemAlloc,
      [&] {
        const Verdict admitted = streams().AdmitUnsafeCall();
        return admitted.ok()
                   ? system().allocations().Allocate(ordinal_, bytes, address)
                   : admitted;
      },
      address, bytes);
}

// Waits for all work of the memory's device, in whatever context, as a real
// driver does.
DriverResult CpuDevice::MemFree(DevicePtr address) {
  return Make(
      DriverCall::kMemFree,
      [&] {
        DeviceAllocations& allocations = system().allocations();
        int device = 0;
        const Verdict found = allocations.FindDevice(address, &device);
        if (!found.ok()) return found;
        const Verdict waited = streams().SynchronizeDevice(device);
        if (!waited.ok()) return waited;
        // The work that it waited for may have lost the device.
        const Verdict health = system().CheckHealth(device);
        if (!health.ok()) return health;
        const Verdict verdict = allocations.Free(address);
        system().ForgetFreedMemory();
        return verdict;
      },
      address);
}

Verdict CpuDevice::GetAttribute(int32_t* value,
                                DeviceAttribute attribute) const {
  if (value == nullptr) return RefuseValue("the value must have a place");
  switch (attribute) {
    case DeviceAttribute::kUnifiedAddressing:
      *value = 1;
      return Allow();
    case DeviceAttribute::kVirtualMemoryManagement:
    case DeviceAttribute::kPosixFileDescriptorHandles:
    case DeviceAttribute::kGpuDirectRdmaWithVmm:
    case DeviceAttribute::kHostNumaVirtualMemoryManagement:
    case DeviceAttribute::kHostVirtualMemoryManagement:
      *value = system().options().virtual_memory ? 1 : 0;
      return Allow();
    case DeviceAttribute::k64BitStreamMemOps:
    case DeviceAttribute::kStreamWaitValueNor:
      *value = system().real() ? 1 : 0;
      return Allow();
    case DeviceAttribute::kFabricHandles:
    case DeviceAttribute::kHostNumaId:
      *value = 0;
      return Allow();
    case DeviceAttribute::kComputeCapabilityMajor:
      *value = 9;
      return Allow();
    case DeviceAttribute::kComputeCapabilityMinor:
      *value = 0;
      return Allow();
  }
  return RefuseValue("the attribute must be one that this driver knows");
}

}  // namespace firn::cpu
